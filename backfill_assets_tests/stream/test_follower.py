"""What follows a batch: a day that cannot be computed is reported and tried again, and ends no stream."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException

from backfill_assets import clock
from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.model.lateness import Lateness
from backfill_assets.rebuild.follow import Followed
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.walk import HeldBack, first_line
from backfill_assets.stream import facts as of_facts
from backfill_assets.stream import follower as module
from backfill_assets.stream.follower import Follower
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FIRST = date(2026, 3, 2)
DAYS = [FIRST + timedelta(days=number) for number in range(6)]
CAST = PySparkException("[CAST_INVALID_INPUT] The value 'many' cannot be cast\n== DataFrame ==\nline 7")


@dataclass
class Growth:
    """Plays :class:`FollowBuild`: the ``broken`` days are held back or raise ``error``, all others are published."""

    broken: set[date] = field(default_factory=set)
    error: Exception | None = None
    gate: dict[date, HeldBack] = field(default_factory=dict)
    tried: list[list[date]] = field(default_factory=list)
    published: list[date] = field(default_factory=list)

    def __call__(self, *_: Any, **__: Any) -> Growth:
        return self

    def publish(self, days: Collection[date]) -> Followed:
        self.tried.append(sorted(days))
        broken = sorted(self.broken.intersection(days))
        if broken and self.error:
            raise self.error
        self.published += [day for day in sorted(days) if day not in broken]
        held = [HeldBack("bronze_sales", day, error=first_line(CAST)) for day in broken]
        held += [HeldBack("fact", each.day, because_of=f"{each.table} {each.day}") for each in held]
        held += [each for day, each in self.gate.items() if day in days]
        step: Any = SimpleNamespace(held_back=tuple(held))
        return Followed("p", (step,))


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Growth:
    found = Growth()
    monkeypatch.setattr(module, "FollowBuild", found)
    return found


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def follower(small: SmallLakehouse, reports: list[str]) -> Follower:
    return Follower(lake_of(small), CATALOG.step("raw_sales"), RunInfo(""), lambda text: None, reports.append)


def test_a_day_that_cannot_be_computed_keeps_no_other_day_back(
    follower: Follower, growth: Growth, small: SmallLakehouse, reports: list[str]
) -> None:
    """It is tried again after a minute, and not with every batch."""
    growth.broken = {DAYS[2]}
    follower.follow(DAYS)
    assert set(growth.published) == set(DAYS) - {DAYS[2]} and follower.pending == {DAYS[2]}
    (report,) = reports
    assert report.startswith(f"{DAYS[2]} will follow later: it cannot be computed: [CAST_INVALID_INPUT] The value")
    assert "line 7" not in report
    before = len(growth.tried)
    follower.follow([DAYS[0]])
    assert growth.tried[before:] == [[DAYS[0]]] and len(reports) == 1
    small.minutes += 2
    growth.broken = set()
    follower.follow([])
    assert follower.pending == set() and DAYS[2] in growth.published


def test_days_that_wait_follow_without_a_batch(follower: Follower, growth: Growth, small: SmallLakehouse) -> None:
    """A stream asks for it each minute in which its source has no news."""
    told: Any = SimpleNamespace(followed_again=lambda: None)
    facts = of_facts.Facts(follower, told)
    facts.follow_again()
    assert growth.tried == []
    growth.broken = set(DAYS)
    follower.follow(DAYS)
    growth.broken = set()
    small.minutes += 2
    facts.follow_again()
    assert follower.pending == set() and set(growth.published) == set(DAYS)


def test_days_of_which_none_can_be_computed_end_no_stream(
    follower: Follower, growth: Growth, reports: list[str]
) -> None:
    """The logic is broken, perhaps: raw goes on, and each start brings up to date what is left."""
    growth.broken, growth.error = set(DAYS), CAST
    follower.follow(DAYS)
    follower.follow([])
    assert follower.pending == set(DAYS) and len(reports) == 1


def test_days_with_late_rows_are_left_to_a_person_where_that_is_declared(
    follower: Follower, growth: Growth, small: SmallLakehouse, reports: list[str]
) -> None:
    """Each is told once, and again when more came; the others follow."""
    follower.raw = replace(follower.raw, lateness=Lateness(7, "ask"))
    for number, late in enumerate((2, 2, 3)):
        small.metrics = {"raw_sales": {"late_rows": late}}
        small.publish(f"late{number}", {"raw_sales": {FIRST: [number]}})
        small.metrics = {"raw_sales": {"late_rows": 0}}
        small.publish(f"good{number}", {"raw_sales": {DAYS[1]: [number]}})
        follower.follow([FIRST, DAYS[1]])
    assert growth.tried == [[DAYS[1]]] * 3 and not follower.pending
    assert reports == [
        f"{FIRST} is left to a person: {late} rows landed more than 7 days after their day" for late in (2, 3)
    ]


FEW = RuleOutcome("few_rejected", "validity", False, "90 of 100 rows quarantined", "at most 20")
RELEASE = f'backfill raw release bronze_sales {FIRST} "REASON"'


def test_what_a_gate_holds_back_is_counted_until_the_day_is_published(
    follower: Follower, growth: Growth, small: SmallLakehouse, reports: list[str]
) -> None:
    """By whom does not matter. Since when stays over a restart, and the message says what publishes the day."""
    small.metrics = {"raw_sales": {"received": 100}}
    small.publish("raw", {"raw_sales": {FIRST: [1], DAYS[1]: [2]}})
    small.metrics = {"bronze_sales": {"from.raw_sales.received": 30}}
    small.publish("bronze", {"bronze_sales": {FIRST: [1]}})
    growth.gate = {FIRST: HeldBack("bronze_sales", FIRST, (FEW,))}
    began = small.now()
    follower.follow(DAYS[:2])
    (held,) = follower.held.values()
    assert (held.events, held.since, held.rule, held.do) == (70, began, "few_rejected", RELEASE)
    assert f"is held back: {held.why}. To publish it without them: {RELEASE}" in reports[-1]
    again = Follower(follower.lake, follower.raw, follower.run, print, reports.append)
    again.take_over([held, held.model_copy(update={"table": "former_sales", "day": DAYS[2]})])
    assert again.held == {FIRST: held}
    small.minutes += 5
    again.follow([FIRST])
    assert again.held[FIRST].since == began
    small.metrics = {"bronze_sales": {"from.raw_sales.received": 100}}
    small.publish("released", {"bronze_sales": {FIRST: [1, 2]}})
    again.see_held()
    assert again.held == {}


def test_a_refused_publication_is_reported_as_before(follower: Follower, growth: Growth, reports: list[str]) -> None:
    growth.broken, growth.error = {DAYS[0]}, PublicationRefused("the code is in no commit")
    follower.follow(DAYS)
    assert follower.pending == set(DAYS) and len(growth.tried) == 1
    assert reports == [f"{DAYS[0]}..{DAYS[-1]} will follow later: the code is in no commit"]


@pytest.mark.parametrize(
    "error", [PySparkException("Caused by: java.io.IOException: No space left on device"), ValueError("a bug")]
)
def test_a_full_disk_and_an_error_of_this_program_end_the_stream(
    follower: Follower, growth: Growth, error: Exception
) -> None:
    growth.broken, growth.error = {DAYS[0]}, error
    with pytest.raises(type(error)):
        follower.follow(DAYS)


@pytest.mark.parametrize(
    "error",
    [FileNotFoundError("part-7.parquet is gone"), pa.ArrowInvalid("no Parquet"), DeltaError("a file is gone")],
)
def test_a_table_that_cannot_be_compacted_is_reported_and_tried_again_after_an_hour(
    follower: Follower, small: SmallLakehouse, reports: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It ends no stream. Each attempt leaves files behind. Other tables are put together."""
    tried: list[str] = []

    def compact(_: object, table: str, *__: object, **___: object) -> None:
        tried.append(table)
        if table == "raw":
            raise error

    monkeypatch.setattr(of_facts, "compact_small_files", compact)
    for minutes in (0, 1, 61):
        small.minutes = minutes
        of_facts.compact_days(follower, ["raw", "fact"], [])
    assert tried == ["raw", "fact", "fact", "raw", "fact"]
    assert reports == [f"Warning: raw is not compacted for an hour: {error}"] * 2
