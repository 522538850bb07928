"""A run in Dagster builds the days that its own look back to, and names the later days that use its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from backfill_assets.days import DayRange
from backfill_assets.defs.dagster_internals import BACKFILL_ID_TAG
from backfill_assets.defs.location import code_location
from backfill_assets.defs.look_back import LATER_DAYS, later_days_text, looked_back_to, missing_earlier_days
from backfill_assets.defs.resources import SharedSpark
from backfill_assets.defs.specs import FORCE_TAG, VERSION_TAG
from backfill_assets.defs.under_way import launch_backfill
from backfill_assets.errors import SparkLost
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Reads, Version
from backfill_assets.model.graph import build_order
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import BuildResult
from backfill_assets_tests.defs.conftest import run_range
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.small_chain import publish_chain
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, TABLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FRIDAY, SATURDAY, SUNDAY, TUESDAY = (date(2017, 3, day) for day in (3, 4, 5, 7))
RATE_TABLES = ("raw_fx_rates", "bronze_fx_rates")
RATES, FACT = "bronze_fx_rates", "fact_sales_transactions"
DAY, LAST = date(2017, 3, 4), date(2017, 3, 6)


def land_rates(home: Path, days: Iterable[date]) -> None:
    for day in days:
        file = home / "landing" / "fx_rates" / str(day) / "rates.jsonl.gz"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"")


Run = Callable[..., FakeBuilder]


@pytest.fixture
def run(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Run:
    """Builds Sunday to Tuesday of tables; rates have landed on Friday and Saturday."""

    def run(*tables: str, fake: FakeBuilder | None = None) -> FakeBuilder:
        land_rates(tmp_path, (FRIDAY, SATURDAY))
        builder = fake or FakeBuilder()
        location = code_location(SMALL_CATALOG, fake_resources(builder, tmp_path))
        assert run_range(location, dagster_instance, f"{SUNDAY}..{TUESDAY}", *tables).success or fake
        return builder

    return run


def earlier(builder: FakeBuilder) -> dict[str, set[date]]:
    found: dict[str, set[date]] = {}
    for table, day in builder.published:
        if day < SUNDAY:
            found.setdefault(table, set()).add(day)
    return found


def test_the_rates_of_friday_are_built_with_a_range_that_begins_on_a_sunday(
    run: Run, dagster_instance: dg.DagsterInstance
) -> None:
    """Before the run's own days; its partitions are its own days only."""
    builder = run(*TABLES)
    assert earlier(builder) == {table: {FRIDAY, SATURDAY} for table in RATE_TABLES}
    told = dagster_instance.get_materialized_partitions(dg.AssetKey("raw_fx_rates"))
    assert told == {"2017-03-05", "2017-03-06", "2017-03-07"}


def test_days_that_are_published_are_left_alone(run: Run, tmp_path: Path) -> None:
    lakehouse = SmallLakehouse(tmp_path / "lakehouse")
    publish_chain(lakehouse, "p", [FRIDAY])
    lakehouse.publish("q", {"raw_fx_rates": {SATURDAY: [1]}})
    assert earlier(run(*TABLES)) == {"bronze_fx_rates": {SATURDAY}}


def test_a_run_that_looks_back_to_nothing_builds_its_own_days(run: Run) -> None:
    assert earlier(run(*RATE_TABLES)) == {}


def test_an_earlier_day_that_fails_its_gates_fails_the_step(run: Run, dagster_instance: dg.DagsterInstance) -> None:
    """It is no partition of the run, so no check is evaluated for it."""
    builder = run(*TABLES, fake=FakeBuilder(failing={"raw_fx_rates": [FRIDAY]}))
    assert not [day for table, day in builder.published if table == "raw_fx_rates"]
    assert dagster_instance.get_materialized_partitions(dg.AssetKey("raw_fx_rates")) == set()


@dataclass
class LosingSpark(FakeBuilder):
    """Its Spark server goes away at the first build."""

    lost: int = 0

    def build(self, *args: Any, **options: Any) -> BuildResult:
        self.lost += 1
        if self.lost == 1:
            raise SparkLost("The Spark server is gone.")
        return super().build(*args, **options)


def test_earlier_days_go_on_when_spark_comes_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the days of the run itself do: nothing of them was published, and what was staged is kept."""
    monkeypatch.setattr(SharedSpark, "reconnect", lambda _: True)
    builder = run(*TABLES, fake=LosingSpark())
    assert earlier(builder) == {table: {FRIDAY, SATURDAY} for table in RATE_TABLES}


@pytest.fixture
def defs(tmp_path: Path) -> dg.Definitions:
    """Over three days of everything."""
    publish_chain(SmallLakehouse(tmp_path / "lakehouse"), "p", [DAY, date(2017, 3, 5), LAST])
    return code_location(SMALL_CATALOG, fake_resources(FakeBuilder(), tmp_path))


def test_a_table_says_where_it_is_launched_that_later_days_use_it(defs: dg.Definitions) -> None:
    """How long, who, and the command that builds them at once."""
    specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
    for table in ("raw_fx_rates", RATES):
        description, metadata = str(specs[table].description), specs[table].metadata[LATER_DAYS]
        assert f"Days up to 7 days later use these rows as well: `{FACT}` looks back" in description
        assert f"`backfill run {table}+ --days A..B`" in description
        assert str(metadata.value) in description
    for table in ("raw_sales", "bronze_sales", FACT):
        assert LATER_DAYS not in specs[table].metadata and "days later" not in str(specs[table].description)


def test_another_version_looks_back_as_it_does(tmp_path: Path) -> None:
    """A run that builds an older version by its tag needs the days of that one, also those that the current leaves."""
    fact = SMALL.step_of(FACT)
    older = Version("v1", "Looks back further.", (Reads("bronze_sales"), Reads(RATES, -4, -1)), dict)
    newer = Version("v2", "Does nothing.", (Reads("bronze_sales"), Reads(RATES, -2, 0)), dict)
    steps = build_order([replace(step, versions=(older, newer)) if step is fact else step for step in SMALL.steps])
    landed = list(DayRange(FRIDAY, LAST))
    land_rates(tmp_path, landed)
    (raw,) = (step for step in steps if step.name == "raw_fx_rates")

    def missing(version: str) -> list[date]:
        storage, zone = Storage(str(tmp_path / "lakehouse")), LandingZone(tmp_path / "landing")
        return missing_earlier_days(raw, steps, TABLES, [TUESDAY], storage, zone, version)

    assert missing("") == missing("as published") == landed[-2:]
    assert missing("v1") == landed


def test_a_look_back_of_one_day_is_in_the_singular() -> None:
    assert later_days_text("bronze_x", {"fact": 1}).startswith("Days up to 1 day later use these rows as well")
    assert later_days_text("bronze_x", {"fact": 7}).startswith("Days up to 7 days later use these rows as well")


# ------------------------------------------------------------------ runs of one backfill


@pytest.fixture
def of_backfill(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Callable[..., FakeBuilder]:
    """A backfill of facts of Saturday to Tuesday and of the rates of Friday, as a repair launches it; the run of the
    facts is the first that Dagster starts, since their own rates are no part of it.
    """

    def run(rates: Iterable[date] = (FRIDAY,), tags: dict[str, str] | None = None) -> FakeBuilder:
        lakehouse = SmallLakehouse(tmp_path / "lakehouse")
        publish_chain(lakehouse, "p", [SATURDAY, SUNDAY])
        lakehouse.publish("q", {"raw_fx_rates": {FRIDAY: [1]}})
        builder = FakeBuilder()
        location = code_location(SMALL_CATALOG, fake_resources(builder, tmp_path))
        wanted = {RATES: rates, FACT: DayRange(SATURDAY, TUESDAY)}
        graph = location.resolve_asset_graph()
        launch_backfill(dagster_instance, graph, wanted, title="A repair", backfill_id="repair")
        tags = {BACKFILL_ID_TAG: "repair", **(tags or {})}
        assert run_range(location, dagster_instance, f"{SATURDAY}..{TUESDAY}", FACT, tags=tags).success
        return builder

    return run


def test_the_reference_days_of_a_backfill_come_before_what_looks_back_to_them(
    of_backfill: Callable[..., FakeBuilder],
) -> None:
    """Else the run of the facts is futile, and an incident. The run of the rates finds them built."""
    builder = of_backfill(tags={VERSION_TAG: AS_PUBLISHED})
    assert [key for key in builder.published if key[0] == RATES] == [(RATES, FRIDAY)]
    assert next(iter(builder.published)) == (RATES, FRIDAY)
    assert builder.versions == [AS_PUBLISHED, AS_PUBLISHED]


def test_reference_days_that_are_built_already_stay(of_backfill: Callable[..., FakeBuilder]) -> None:
    assert {table for table, _ in of_backfill(rates=(SATURDAY,)).published} == {FACT}


def test_days_that_are_to_be_built_whatever_they_are_made_of_are_built_before_what_looks_back_to_them(
    of_backfill: Callable[..., FakeBuilder],
) -> None:
    """A watchdog has found other rows in them: who reads them before would keep these, and nothing would show it."""
    builder = of_backfill(rates=(SATURDAY,), tags={FORCE_TAG: "watchdog"})
    assert next(iter(builder.published)) == (RATES, SATURDAY)


def test_what_a_run_looks_back_to_is_ordered_where_dagster_does_not() -> None:
    """Days of the run's own step are built in order, days outside of the backfill are left as they are."""
    steps = build_order(SMALL.steps)
    fact, every = SMALL.step_of(FACT), {FRIDAY, SATURDAY, SUNDAY}
    target: dict[str, set[date]] = {"raw_fx_rates": {FRIDAY}, RATES: every, FACT: {SUNDAY}}
    assert looked_back_to(fact, steps, [SUNDAY], target, {FACT: {SUNDAY}}) == {
        "raw_fx_rates": {FRIDAY},
        RATES: {FRIDAY, SATURDAY},
    }
    assert looked_back_to(fact, steps, [SUNDAY], target, {RATES: every, "raw_fx_rates": every}) == {}
    assert looked_back_to(SMALL.step_of(RATES), steps, [SUNDAY], target, {}) == {}
    assert looked_back_to(fact, steps, [SUNDAY], {RATES: {SUNDAY, TUESDAY}}, {}) == {}
