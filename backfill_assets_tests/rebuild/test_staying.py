"""Which planned days of a campaign stay as they are, and which only wait for their turn: seen in the logs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.place import Overlay
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import StagedDays, with_days_that_stay
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
D1, D2, D3 = DAYS = [date(2017, 3, day) for day in (1, 2, 3)]
AMOUNTS = {D1: 10, D2: 20, D3: 30}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLakehouse]:
    """Three days by the old logic; revenue is published from just the facts that there are."""
    found = SmallLakehouse(tmp_path)
    with clock.use(found.time):
        for table in {read.table for read in CATALOG.step(FACT).version("v2").reads}:
            found.publish(table.replace("_", "-"), {table: {day: [1] for day in DAYS}})
        publish(found, FACT, "v1", DAYS)
        publish(found, REVENUE, CATALOG.step(REVENUE).current, DAYS)
        yield found


def publish(small: SmallLakehouse, table: str, version: str, days: Iterable[date]) -> None:
    """With the fingerprint of its inputs, as a build publishes it."""
    wanted, step = list(days), CATALOG.step(table)
    reads = decide.read_days(step, step.version(version), wanted)
    pin = small.publisher.pin(writes={}, reads=reads)
    logicals = {name: read.days for name, read in pin.inputs.items()}
    inputs = {day: each.inputs for day, each in decide.wanted(step, step.version(version), wanted, logicals).items()}
    rows = {table: {day: [AMOUNTS[day]] for day in wanted}}
    small.publish(f"{step.name.replace('_', '-')}-{version}-{len(wanted)}", rows, code=version, inputs=inputs)


def found(
    small: SmallLakehouse,
    staged: Mapping[str, Mapping[date, int]],
    failed: Mapping[str, Iterable[date]] = {},
) -> StagedDays:
    """``staged`` has what a staged day adds up to."""
    overlay = Overlay()
    for table, days in staged.items():
        contents = ((day, DayContent(rows=1, checksum=str(amount))) for day, amount in days.items())
        overlay = overlay.with_days(table, [DayRecord(day=day, content=content) for day, content in contents])
    held = StagedDays(overlay, {table: dict.fromkeys(days, "held back") for table, days in failed.items()})
    revenue = CATALOG.step(REVENUE)
    steps = [
        StepRequest(CATALOG.step(FACT), DAYS, "v2"),
        StepRequest(revenue, DAYS),
    ]
    return with_days_that_stay(lake_of(small), steps, held)


def test_a_day_whose_inputs_stay_the_same_is_unchanged(small: SmallLakehouse) -> None:
    """The campaign is done: two days of the facts came out as they were, so revenue is not computed for them."""
    done = found(small, {FACT: {D1: 11, D2: 20, D3: 30}, REVENUE: {D1: 11}})
    assert done.stays == {FACT: {}, REVENUE: dict.fromkeys((D2, D3), "unchanged")}


def test_a_day_that_reads_one_whose_turn_has_not_come_waits(small: SmallLakehouse) -> None:
    """After a canary: revenue of the other days is as it was published, and yet it may change."""
    canary = found(small, {FACT: {D1: 11}, REVENUE: {D1: 11}})
    assert canary.stays == {FACT: {}, REVENUE: {}}


def test_a_day_that_reads_one_that_failed_is_left_out(small: SmallLakehouse) -> None:
    """It stays as it is, and does not wait."""
    held = found(small, {FACT: {D1: 11, D3: 30}, REVENUE: {D1: 11}}, failed={FACT: [D2]})
    assert held.stays == {FACT: {D2: "held back"}, REVENUE: {D2: "left out", D3: "unchanged"}}


def test_a_day_that_is_published_by_the_new_logic_already_is_unchanged(small: SmallLakehouse) -> None:
    """A plan may name it because another of its tables is rebuilt; what is made of it follows."""
    publish(small, FACT, "v2", [D3])
    done = found(small, {FACT: {D1: 11, D2: 20}, REVENUE: {D1: 11}})
    assert done.stays == {FACT: {D3: "unchanged"}, REVENUE: dict.fromkeys((D2, D3), "unchanged")}


def test_a_day_that_lacks_an_input_is_left_out(tmp_path: Path) -> None:
    """It cannot be computed: no raw day of it was ever published."""
    small = SmallLakehouse(tmp_path)
    for table in {read.table for read in CATALOG.step(FACT).version("v2").reads}:
        small.publish(table.replace("_", "-"), {table: {day: [1] for day in (D1, D2)}})
    publish(small, REVENUE, CATALOG.step(REVENUE).current, [D1])
    assert found(small, {FACT: {D1: 11}, REVENUE: {D1: 11}}).stays[FACT] == {D3: "left out"}


def test_a_foreign_write_is_not_unchanged(small: SmallLakehouse) -> None:
    """Its content is unknown: it is staged, and until then it waits."""
    small.write_past_the_protocol(REVENUE, D2, [7])
    assert found(small, {FACT: {D1: 11, D2: 20, D3: 30}, REVENUE: {D1: 11}}).stays[REVENUE] == {D3: "unchanged"}


def test_what_was_staged_of_a_day_that_a_cut_over_leaves_out_does_not_count(small: SmallLakehouse) -> None:
    """Revenue was staged when the facts of that day still passed their gates; now they are held back."""
    done = found(small, {FACT: {D1: 11, D2: 20}, REVENUE: {D1: 11, D3: 31}}, failed={FACT: [D3]})
    assert done.stays == {FACT: {D3: "held back"}, REVENUE: {D2: "unchanged", D3: "left out"}}
    assert {table: sorted(days) for table, days in done.overlay.days.items()} == {FACT: [D1, D2], REVENUE: [D1]}


def test_a_day_whose_other_table_failed_is_left_out(small: SmallLakehouse) -> None:
    """Tables of a step are published together: a quarantine that passed waits for its bronze."""
    step = CATALOG.step("bronze_sales")
    bronze, quarantine = (table.name for table in step.tables)
    first, second = (DayRecord(day=day, content=DayContent(rows=1, checksum="1")) for day in (D1, D2))
    overlay = Overlay().with_days(quarantine, [first, second]).with_days(bronze, [second])
    held = StagedDays(overlay, {bronze: {D1: "held back"}})
    done = with_days_that_stay(lake_of(small), [StepRequest(step, (D1, D2))], held)
    assert done.stays == {bronze: {D1: "held back"}, quarantine: {D1: "left out"}}
    assert {table: sorted(days) for table, days in done.overlay.days.items()} == {bronze: [D2], quarantine: [D2]}
