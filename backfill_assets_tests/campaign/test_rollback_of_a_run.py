"""A run is rolled back: its days go back to what they were, if that was made of what main has; readers are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.rebuild import decide
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
RAW, BRONZE, QUARANTINE, FACT, RATES = (
    "raw_sales",
    "bronze_sales",
    "quarantine_sales",
    "fact_sales_transactions",
    "bronze_fx_rates",
)
REVENUE = "fact_daily_revenue"
DAY = date(2017, 3, 4)


class Runs:
    """Raw rows of one day, and runs that build a table from what is published."""

    def __init__(self, small: SmallLakehouse) -> None:
        self.small = small

    def land(self, row: int) -> str:
        """Append one row to raw."""
        request = self.small.request(f"raw-{row}", {RAW: {DAY: [row]}}, mode="append")
        moved = request.tables[0].model_copy(update={"positions": (Position(id=f"file-{row}", before=None, after=1),)})
        self.small.publish_request(request.model_copy(update={"tables": (moved,)}))
        return request.id

    def run(self, table: str, id: str, rows: Sequence[int], version: str | None = None) -> str:
        step = CATALOG.step(table)
        chosen = step.version(version)
        reads = decide.read_days(step, chosen, [DAY])
        logicals = {name: read.days for name, read in self.small.publisher.pin({}, reads).inputs.items()}
        inputs = {DAY: decide.wanted(step, chosen, [DAY], logicals)[DAY].inputs}
        tables = {name: {DAY: rows if name == table else []} for name in step.table_names}
        self.small.publish(id, tables, code=chosen.name, inputs=inputs)
        return id

    def undo(self, publication: str) -> Mapping[str, Sequence[date]]:
        """The days that the rollback names as stale."""
        undone = roll_back(self.small.publisher, publication, id=f"undo-{publication}", steps=CATALOG.steps)
        found = self.small.publisher.log.find_prepared(undone.publication)
        assert found is not None
        return found[0].publication.leaves_stale

    def holds(self, table: str) -> int:
        log = self.small.publisher.log
        content = log.day_states(log.head(), {table})[TableDay(table, DAY)].content
        return int(content.checksum) if content else 0


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    """Bronze, fact and revenue of one row; then a late row, taken in by all three."""
    found = Runs(SmallLakehouse(tmp_path_factory.mktemp("built")))
    with clock.use(found.small.time):
        for id, rows in (("one", [1]), ("two", [1, 2])):
            found.land(len(rows))
            found.run(BRONZE, f"bronze-{id}", rows)
            found.run(FACT, f"fact-{id}", rows)
            found.run(REVENUE, f"revenue-{id}", rows)
    return found.small


@pytest.fixture
def runs(built: SmallLakehouse, tmp_path: Path) -> Iterator[Runs]:
    found = Runs(built.copy(tmp_path))
    with clock.use(found.small.time):
        yield found


def test_what_would_be_older_than_its_inputs_is_refused_with_the_run_to_roll_back_first(runs: Runs) -> None:
    """From the last step to the first, each refusal names the run before it; from the first to the last, all go."""
    for table, id, first in ((REVENUE, "revenue-two", "fact-two"), (FACT, "fact-two", "bronze-two")):
        before = runs.small.publisher.log.head().version
        with pytest.raises(
            PublicationRefused, match=f"{table} {DAY} would be older than what it is made of"
        ) as refused:
            runs.undo(id)
        assert f"Roll back {first} first" in str(refused.value.hint)
        assert runs.small.publisher.log.head().version == before, "nothing was prepared"
    assert runs.undo("bronze-two") == {FACT: (DAY,), BRONZE: (DAY,), QUARANTINE: (DAY,)}
    assert runs.undo("fact-two") == {REVENUE: (DAY,)}
    assert runs.undo("revenue-two") == {}
    assert [runs.holds(table) for table in (RAW, BRONZE, FACT, REVENUE)] == [3, 1, 1, 1], "no row of raw is lost"


def test_a_run_by_another_version_goes_back_and_what_reads_it_is_named(runs: Runs) -> None:
    """The old logic gave other rows of just these inputs. Its undo names the readers as well, unless they follow it."""
    runs.run(FACT, "fact-three", [10, 20], "v1")
    assert runs.undo("fact-three") == {}, "revenue was built from what is back"
    runs.run(FACT, "fact-four", [10, 20], "v1")
    runs.run(REVENUE, "revenue-four", [10, 20])
    assert runs.undo("fact-four") == {REVENUE: (DAY,)}
    assert (runs.holds(FACT), runs.holds(REVENUE)) == (3, 30)
    assert runs.undo("undo-fact-four") == {}
    assert runs.holds(FACT) == 30


def test_a_reader_that_is_built_since_the_look_is_named(runs: Runs) -> None:
    """Nothing read the fact by v1 when the rollback looked; before it is on the log, somebody has built revenue."""
    runs.run(FACT, "fact-three", [10, 20], "v1")
    publisher, overtaken = runs.small.publisher, list[str]()

    def others(step: CrashPoint, about: str) -> None:
        if about == "undo-fact-three" and not overtaken:
            overtaken.append(about)
            runs.run(REVENUE, "revenue-three", [10, 20])

    publisher.reached = others
    assert runs.undo("fact-three") == {REVENUE: (DAY,)}


@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
def test_rows_that_were_only_gained_are_no_reason_to_refuse_it(runs: Runs, compacted: bool) -> None:
    """Raw is appended to: bronze goes back, lacks the rows that came since, and is named as stale."""
    if compacted:
        assert compact(runs.small.publisher, RAW, [DAY], id="compact-raw")
    stale = runs.undo("bronze-two")
    assert BRONZE in stale and runs.holds(BRONZE) == 1


def test_rows_that_raw_does_not_have_any_more_do_not_come_back(runs: Runs) -> None:
    """Bronze of two rows was replaced after one was rolled back from raw: it must not bring that row back."""
    roll_back(runs.small.publisher, "raw-2", id="undo-raw-2", steps=CATALOG.steps)
    runs.run(BRONZE, "bronze-three", [1])
    with pytest.raises(PublicationRefused, match=f"(bronze|quarantine)_sales {DAY} would be older"):
        runs.undo("bronze-three")
    assert runs.holds(BRONZE) == 1
    assert runs.undo("undo-raw-2").keys() == {BRONZE, QUARANTINE}


def test_a_compaction_of_a_stale_day_can_be_taken_back(runs: Runs) -> None:
    """The day holds what it held: that it is stale has another cause."""
    log = runs.small.publisher.log
    shown = log.day_states(log.head(), {FACT})[TableDay(FACT, DAY)].content
    runs.land(3)
    runs.run(BRONZE, "bronze-three", [1, 2, 3])
    (change,) = runs.small.request("compact-fact", {FACT: {DAY: [1, 2]}}).tables
    day = change.days[0].model_copy(update={"content": shown})
    tables = (change.model_copy(update={"days": (day,)}),)
    runs.small.publish_request(Publication(id="compact-fact", kind="compact", tables=tables))
    assert runs.undo("compact-fact") == {}
    assert log.day_states(log.head(), {FACT})[TableDay(FACT, DAY)].content == shown


def test_it_is_not_advised_to_roll_itself_back_first(runs: Runs) -> None:
    """It brought one of the inputs along: what has moved since is another one."""
    together: dict[str, dict[date, list[int]]] = {BRONZE: {DAY: [1, 2, 3]}, QUARANTINE: {DAY: []}, FACT: {DAY: [10]}}
    runs.small.publish("together", together, code=CATALOG.step(FACT).current)
    (rates,) = decide.read_days(CATALOG.step(FACT), CATALOG.step(FACT).version(), [DAY])[RATES][-1:]
    runs.small.publish("other-rates", {RATES: {rates: [7]}})
    with pytest.raises(PublicationRefused, match=f"{FACT} {DAY} would be older") as refused:
        runs.undo("together")
    assert "Roll back other-rates first" in str(refused.value.hint)
