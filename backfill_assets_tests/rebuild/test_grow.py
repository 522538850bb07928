"""A day that grows equals its rebuild: for all kinds of late rows, in any order and in any number of batches.

``GROWN_SEED`` draws the batches of a run again.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge import measure
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayChange, DayContent, Publication, TableChange
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import made_of
from backfill_assets.publish.compact import compact
from backfill_assets.publish.holds import put_hold
from backfill_assets.publish.publisher import Published
from backfill_assets.rebuild import decide, follow
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory, following
from backfill_assets.rebuild.grown_content import without_extensions
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.spark.computed import computed
from backfill_assets.state.diagnosis import in_a_word
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = (date(2017, 3, 1), date(2017, 3, 2))
ARRIVALS = (date(2017, 3, 2), date(2017, 3, 3), date(2017, 3, 4), date(2017, 3, 5))
STEPS = following(CATALOG.steps, "raw_sales")
TABLES = [table.name for step in STEPS for table in step.tables]
Line = dict[str, str | None]
ContentOfDays = dict[date, tuple[DayContent, dict[str, object]]]
Content = dict[str, ContentOfDays]


def lakehouse_with_rates(home: Path, spark: SparkSession) -> Workshop:
    """The exchange rates are published, and no sales have landed."""
    workshop = Workshop(home, lambda: spark)
    workshop.land_real(DayRange(*DAYS))
    shutil.rmtree(workshop.settings.landing / "sales", ignore_errors=True)
    workshop.build_rates(DayRange(*DAYS))
    return workshop


def ways(done: Followed, table: str = "", day: date | None = None) -> dict[TableDay, tuple[str, str]]:
    """How each day of each step came to be as it is, and why it was built whole; of one ``table`` and ``day``."""
    found: dict[TableDay, tuple[str, str]] = {}
    for step in done.steps:
        build = step.build
        for each in step.staged:
            way = ("grown", "") if each in build.grown else ("built", build.whole.get(each, ""))
            found[TableDay(step.step, each)] = way
        found |= {TableDay(step.step, each): ("unchanged", "") for each in step.kept}
    return {key: way for key, way in found.items() if key.table == (table or key.table) and key.day == (day or key.day)}


class StreamedSales:
    """``memory`` is that of one process; a new one stands for a restart."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.workshop = Workshop(home, lambda: spark)
        self.memory = InputMemory()
        landed = self.workshop.settings.landing / "sales"
        self.arrivals = [day for day in ARRIVALS if not (landed / str(day)).exists()]
        self.messages: list[str] = []

    def arrive(self, lines: Sequence[Line]) -> None:
        """Take ``lines`` into raw, as what arrived on the next day."""
        day = self.arrivals.pop(0)
        land(self.workshop.settings.landing, "sales", str(day), "lines", lines)
        self.workshop.build("raw_sales", [day])

    def follow(self, days: Collection[date] = DAYS, steps: Sequence[Step] = STEPS) -> Followed:
        lake = self.workshop.builder.lake
        return FollowBuild(lake, steps, RunInfo("stream"), self.messages.append, self.memory).publish(days)

    def rebuild(self) -> None:
        """Build everything whole, although nothing has changed."""
        for step in STEPS:
            self.workshop.build(step.name, DAYS, force=True)

    def rows(self) -> dict[str, list[str]]:
        """Every published row, with all of its columns."""
        return {name: sorted(str(row) for row in self.workshop.read(name).to_dict("records")) for name in TABLES}

    def contents(self) -> Content:
        """What the log says of every day, apart from how often it was extended and how long it took to stage."""
        found: Content = {}
        for name in TABLES:
            for day, state in self.workshop.states(name).items():
                assert state.content is not None
                metrics: dict[str, object] = {**without_extensions(state.content.metrics)}
                found.setdefault(name, {})[day] = (replace(state.content, staged_ms=None, metrics={}), metrics)
        return found

    def statuses(self) -> set[str]:
        observed = observe(self.workshop.builder.lake.storage, CATALOG.table_names)
        found = day_statuses(CATALOG.steps, observed, DayRange(*DAYS))
        return {in_a_word(found[name][day]) for name in TABLES for day in DAYS}


ONE, TWO = DAYS


@pytest.fixture(scope="module")
def with_rates(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    return lakehouse_with_rates(tmp_path_factory.mktemp("rates") / "home", spark).settings.landing.parent


@pytest.fixture(scope="module")
def with_sales(with_rates: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Three baskets on each day are published down to the last table."""
    sales = streamed(with_rates, tmp_path_factory.mktemp("sales") / "home", spark)
    sales.arrive([line(n, day=n % 2) for n in range(6)])
    assert {how for how, _ in ways(sales.follow()).values()} == {"built"}
    return sales.workshop.settings.home


def streamed(template: Path, home: Path, spark: SparkSession) -> StreamedSales:
    shutil.copytree(template, home)
    return StreamedSales(home, spark)


def line(basket: int, day: int = 0, version: int = 0, cents: int = 100, **changes: str) -> Line:
    return sale(
        basket_id=str(basket),
        store_id=str(basket % 2),
        transaction_timestamp=f"{DAYS[day]}T10:00:00Z",
        updated_at=f"2017-03-02T20:{version:02d}:00Z",
        sales_value=f"{cents // 100}.{cents % 100:02d}",
        **changes,
    )


def drawn_line(chance: random.Random) -> Line:
    """Few baskets, so that versions, moves to the other day, duplicates and rejected lines meet."""
    kind = chance.choice(["version", "rejected", "in euros or pounds"])
    if kind == "version":
        basket, day, version, cents = (chance.randint(0, most) for most in (4, 1, 4, 3))
        return line(basket, day, version, cents)
    if kind == "rejected":
        return line(chance.randint(0, 4), quantity="many")
    return line(chance.randint(5, 9), currency=chance.choice(["EUR", "GBP"]))


def drawn_batches(chance: random.Random) -> list[list[Line]]:
    return [[drawn_line(chance) for _ in range(chance.randint(4, 16))] for _ in range(chance.randint(2, 3))]


EVERYTHING: list[list[Line]] = [
    [*(line(n) for n in range(6)), line(7, day=1), line(6, quantity="many")],
    # A correction, a duplicate, a rejected line, a new basket, and a basket that moves to the other day.
    [line(0, version=2, cents=900), line(1), line(2, quantity="no number"), line(8), line(3, day=1, version=3)],
    # An older version late, an older move, one that moves back, and a version that overtakes a marker.
    [line(0, version=1, cents=5), line(3, version=1), line(3, version=4), line(7, day=0, version=1), line(9, day=1)],
]


def assert_equal_to_a_rebuild(sales: StreamedSales) -> None:
    assert sales.statuses() == {"fresh"}
    rows, contents = sales.rows(), settled(sales.contents())
    sales.rebuild()
    assert sales.rows() == rows
    assert settled(sales.contents()) == contents


def settled(contents: Content) -> Content:
    """Lines that are all rejected change no row of bronze, and so no fact: it keeps the account of raw that it had."""
    refined = {"bronze_sales", "quarantine_sales"}
    return {table: days if table in refined else _without(days, OLDER) for table, days in contents.items()}


OLDER = ("from.raw_sales.", "from.quarantine_sales.")
"""What facts record of the tables that their inputs were made of."""


def _without(days: ContentOfDays, prefixes: tuple[str, ...]) -> ContentOfDays:
    return {
        day: (content, {name: value for name, value in metrics.items() if not name.startswith(prefixes)})
        for day, (content, metrics) in days.items()
    }


@pytest.mark.timeout(600)
def test_a_day_with_all_kinds_of_late_rows_equals_its_rebuild(
    with_rates: Path, tmp_path: Path, spark: SparkSession
) -> None:
    sales = streamed(with_rates, tmp_path / "home", spark)
    for number, batch in enumerate(EVERYTHING):
        sales.arrive(batch)
        result = sales.follow()
        for table in ("bronze_sales", "fact_sales_transactions"):
            assert {how for how, _ in ways(result, table).values()} == ({"grown"} if number else {"built"}), result
        assert len(sales.workshop.builder.lake.publisher.log.prepared_of([result.publication])) == 1
    assert {how for how, _ in ways(sales.follow()).values()} == {"unchanged"}
    state = sales.workshop.states("bronze_sales")[ONE]
    assert state.content is not None and state.content.metrics["extensions"] == 2

    verified = verify(sales)
    assert {day.verified for day in verified.days} == {"equal to a whole rebuild"}
    assert verified.publications == () and sales.workshop.states("bronze_sales")[ONE] == state

    publish_as(sales, "bronze_sales", TWO, rows=77)
    verified = verify(sales)
    found = {day.day: day.verified for day in verified.days if day.table == "bronze_sales"}
    assert found[ONE] == "equal to a whole rebuild" and found[TWO].startswith("rows 77 -> ")
    assert any("differs from a whole rebuild: rows 77" in message for message in sales.workshop.messages)
    assert {day.day for day in verified.days if not day.reused} == {TWO}
    assert ("unchanged", "") in ways(sales.follow()).values()
    assert_equal_to_a_rebuild(sales)


def verify(sales: StreamedSales) -> BuildResult:
    """What the nightly run does with the first step."""
    messages = sales.workshop.messages.append
    return sales.workshop.builder.build(STEPS[0], DAYS, run=RunInfo("nightly"), verify=True, progress=messages)


def test_a_day_that_was_never_timed_stays_so_when_it_is_extended(
    with_sales: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """A plan would take 0 for the seconds of the whole day."""
    sales = streamed(with_sales, tmp_path / "home", spark)
    publish_as(sales, "bronze_sales", ONE, rows=3, staged_ms=None)
    sales.arrive([line(9)])
    assert ways(sales.follow(steps=STEPS[:1]), "bronze_sales", ONE) == {TableDay("bronze_sales", ONE): ("grown", "")}
    content = sales.workshop.states("bronze_sales")[ONE].content
    assert content is not None and (content.rows, content.staged_ms) == (4, None)


def test_a_transform_that_changes_keys_is_refused(
    with_sales: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows would stand beside those that the table has of these keys; its logic is taken for that of its days."""
    monkeypatch.setattr(follow, "edited_logic", lambda *_: ())
    sales = streamed(with_sales, tmp_path / "home", spark)
    before = sales.rows()
    sales.arrive([line(9), line(0, version=2)])
    bronze, facts, *others = STEPS
    message = "fact_sales_transactions 2017-03-01 gave 2 keys that its rows of bronze_sales do not have: "
    with pytest.raises(LakehouseUnusable, match=message):
        sales.follow(steps=[bronze, with_other_keys(facts), *others])
    assert sales.rows() == before
    assert {how for how, _ in ways(sales.follow(), facts.name).values()} == {"grown", "unchanged"}


def test_days_of_two_versions_in_one_call_follow_their_own_keys(
    with_rates: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """Those of the second version took the first one's place, and rows of the first stood beside those they follow."""
    sales = streamed(with_rates, tmp_path / "home", spark)
    sales.arrive([*(line(n) for n in range(3)), *(line(n, day=1) for n in range(5, 8))])
    sales.follow([ONE])
    bronze, *others = STEPS
    steps = [replace(bronze, versions=(bronze.version(), replace(bronze.version(), name="v0")), current="v0"), *others]
    sales.follow([TWO], steps)
    sales.arrive([line(0, version=2, cents=900), line(5, day=1, version=2, cents=700)])
    result = sales.follow(DAYS, steps)
    assert not result.held_back
    assert set(ways(result, "fact_sales_transactions").values()) == {("grown", "")}
    assert len(sales.workshop.read("fact_sales_transactions")) == len(sales.workshop.read("bronze_sales")) == 6


def with_other_keys(step: Step) -> Step:
    def changed(version: Version) -> Version:
        def transform(inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
            rows = computed(version, inputs)[step.name]
            return {step.name: rows.withColumn("transaction_id", F.concat("transaction_id", F.lit("x")))}

        return replace(version, transform=transform)

    return replace(step, versions=tuple(map(changed, step.versions)))


def publish_as(sales: StreamedSales, table: str, day: date, rows: int, **changes: Any) -> None:
    """What an error in an extension would leave: a published day that is said to have other rows than it has."""
    publisher = sales.workshop.builder.lake.publisher
    step = CATALOG.step(table)
    pin = publisher.pin({table: [day]}, decide.read_days(step, step.version(), [day]))
    main = MainTable.open(publisher.storage, table)
    content = sales.workshop.states(table)[day].content
    assert main is not None and content is not None
    change = DayChange(
        day=day,
        adds=main.state().of_days([day])[day],
        content=replace(content, rows=rows, **changes),
        expected=pin.expected[TableDay(table, day)],
        made_of=made_of(step, step.version(), day),
    )
    changed = TableChange(table=table, table_schema=str(main.handle.schema().to_json()), days=(change,))
    request = Publication(id="wrong", kind="replace", tables=(changed,), inputs=tuple(pin.inputs.values()))
    assert isinstance(publisher.publish(request), Published)


@pytest.mark.hypothesis
@pytest.mark.timeout(600)
def test_extending_equals_rebuilding(with_rates: Path, tmp_path: Path, spark: SparkSession) -> None:
    """`make generated` draws more. Hypothesis would begin with the simplest example, at full price."""
    for number in range(drawn(1)):
        seed = int(os.environ.get("GROWN_SEED") or random.randrange(2**32))
        print(f"GROWN_SEED={seed}")
        chance = random.Random(seed)
        restarts = chance.choice([True, False])
        sales = streamed(with_rates, tmp_path / str(number), spark)
        for batch in [[line(10), line(11, day=1)], *drawn_batches(chance)]:
            sales.memory = InputMemory() if restarts else sales.memory
            sales.arrive(batch)
            assert not sales.follow().held_back
        assert_equal_to_a_rebuild(sales)


@pytest.mark.timeout(600)
def test_days_under_a_hold_wait_for_the_next_call_and_compaction_forgets_nothing(
    with_rates: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does Spark compute a hash again of files that were put together: the stream that follows is no slower."""
    sales = streamed(with_rates, tmp_path / "home", spark)
    for batch in EVERYTHING[:2]:
        sales.arrive(batch)
        sales.follow()

    sales.arrive(EVERYTHING[2])
    publisher = sales.workshop.builder.lake.publisher
    with_hold = put_hold(publisher.storage, "campaign-x", {"bronze_sales": [ONE]})
    result = sales.follow()
    assert set(result.left) == {ONE} and {key.day for key in ways(result)} == {TWO}
    with_hold.release()

    for table in ("bronze_sales", "fact_sales_transactions"):
        assert isinstance(compact(publisher, table, list(DAYS), id=f"compact-{table.replace('_', '-')}"), Published)

    def again(hashes: object) -> None:
        raise AssertionError(f"Spark is asked for {hashes}.")

    sales.memory = InputMemory()
    with monkeypatch.context() as patch:
        patch.setattr(measure, "sum_of_hashes", again)
        result = sales.follow()
    assert [how for how, _ in ways(result, "bronze_sales").values()] == ["grown", "unchanged"]

    compact(publisher, "raw_sales", list(DAYS), id="compact-raw")
    sales.memory = InputMemory()
    sales.arrive([line(0, version=5, cents=700), line(12, day=1)])
    assert {how for how, _ in ways(sales.follow(), "bronze_sales").values()} == {"grown"}
    assert_equal_to_a_rebuild(sales)


def test_a_day_that_its_gates_hold_back_does_not_stop_the_others(
    with_sales: Path, tmp_path: Path, spark: SparkSession
) -> None:
    sales = streamed(with_sales, tmp_path / "home", spark)
    before = sales.workshop.states("bronze_sales")[ONE]
    sales.arrive([*(line(n, quantity="many") for n in range(40)), line(9, day=1)])
    result = sales.follow()
    assert {held.day for held in result.held_back} == {ONE}
    assert [held.because_of for held in result.held_back[1:]] == [
        f"bronze_sales {ONE}",
        f"fact_sales_transactions {ONE}",
    ]
    assert {key.day for key in ways(result)} == {TWO} and ways(result)[TableDay("bronze_sales", TWO)][0] == "grown"
    assert sales.workshop.states("bronze_sales")[ONE] == before
    assert "few_rejected" in result.held_back[0].why


MANY = 25
"""More deduplicated rows than sales let pass without a closer look."""


def test_a_day_of_many_deduplicated_rows_is_extended_where_none_can_be_a_duplicate(
    with_rates: Path, tmp_path: Path, spark: SparkSession
) -> None:
    """As of orders that are paid and sent: no row gives way to one of its own version. The other day has duplicates."""
    sales = streamed(with_rates, tmp_path / "home", spark)
    extended, looked_at = ("grown", ""), ("built", "it has so many deduplicated rows that they are looked at closely")

    def bronze_of(*lines: Line, steps: Sequence[Step] = STEPS[:1]) -> list[tuple[tuple[str, str], object]]:
        """What becomes of each day once ``lines`` have arrived, and the duplicates that it is said to have."""
        sales.arrive(lines)
        result, contents = sales.follow(steps=steps), sales.contents()["bronze_sales"]
        assert not result.held_back and not result.left
        found = ways(result, "bronze_sales")
        return [(found[TableDay("bronze_sales", day)], contents[day][1].get("duplicates")) for day in DAYS]

    def newer(version: int) -> list[Line]:
        """A newer version of every row of the second day, and a rejected line."""
        rows = (line(100 + n, day=1, version=version) for n in range(MANY))
        return [*rows, line(100, day=1, version=version, quantity="many")]

    bronze_of(*(line(n) for n in range(MANY)), line(0), *newer(0))
    # One row of another basket had given way by then, and nothing had counted whether it was a duplicate.
    found = bronze_of(*(line(n, version=1) for n in range(1, MANY)), *newer(1))
    assert found == [(looked_at, 1), (extended, 0)]
    found = bronze_of(*(line(n, version=1) for n in range(1, 4)), *newer(2))
    assert found == [(looked_at, 4), (extended, 0)]
    (_, (way, duplicates)) = bronze_of(*newer(3), line(100, day=1, version=3), steps=STEPS)
    assert (way[0], duplicates) == ("built", 1), "a duplicate is for a whole build"
    assert_equal_to_a_rebuild(sales)
