"""What follows a batch: a day that cannot be computed is reported and tried again, and ends no stream."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from backfill_assets.errors import PublicationRefused
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.extension.extend import ExtendResult
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream import follower as module
from backfill_assets.stream import run
from backfill_assets.stream.follower import Follower
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = date(2026, 3, 2)
DAYS = [FIRST + timedelta(days=number) for number in range(6)]
CAST = "[CAST_INVALID_INPUT] The value 'many' cannot be cast\n== DataFrame ==\nline 7"


def no_spark() -> SparkSession:
    raise AssertionError("Extending is played here.")


@dataclass
class Extensions:
    """Plays :func:`extend`: the ``broken`` days raise ``error``, all others are published."""

    broken: set[date] = field(default_factory=set)
    error: Exception = field(default_factory=lambda: PySparkException(CAST))
    tried: list[list[date]] = field(default_factory=list)
    published: list[date] = field(default_factory=list)

    def __call__(self, lake: Lake, steps: Sequence[Any], days: Collection[date], *_: Any, **__: Any) -> ExtendResult:
        self.tried.append(sorted(days))
        if self.broken & set(days):
            raise self.error
        self.published += sorted(days)
        return ExtendResult("p", ())


@pytest.fixture
def extensions(monkeypatch: pytest.MonkeyPatch) -> Extensions:
    found = Extensions()
    monkeypatch.setattr(module, "extend", found)
    return found


@pytest.fixture
def small(tmp_path: Path) -> SmallLakehouse:
    return SmallLakehouse(tmp_path / "lakehouse")


@pytest.fixture
def reports() -> list[str]:
    return []


@pytest.fixture
def follower(small: SmallLakehouse, tmp_path: Path, reports: list[str]) -> Follower:
    lake = Lake(CATALOG, small.storage, small.publisher, LandingZone(tmp_path / "landing"), no_spark, "")
    return Follower(lake, CATALOG.step("raw_sales"), RunInfo(""), lambda text: None, reports.append)


def test_a_day_that_cannot_be_computed_keeps_no_other_day_back(
    follower: Follower, extensions: Extensions, small: SmallLakehouse, reports: list[str]
) -> None:
    """It is tried again after a minute, and not with every batch."""
    extensions.broken = {DAYS[2]}
    follower.follow(DAYS)
    assert set(extensions.published) == set(DAYS) - {DAYS[2]} and follower.pending == {DAYS[2]}
    (report,) = reports
    assert report.startswith(f"{DAYS[2]} will follow later: it cannot be computed: [CAST_INVALID_INPUT] The value")
    assert "line 7" not in report
    before = len(extensions.tried)
    follower.follow([DAYS[0]])
    assert extensions.tried[before:] == [[DAYS[0]]] and len(reports) == 1
    small.minutes += 2
    extensions.broken = set()
    follower.follow([])
    assert follower.pending == set() and DAYS[2] in extensions.published


def test_days_that_wait_follow_without_a_batch(
    follower: Follower, extensions: Extensions, small: SmallLakehouse
) -> None:
    """A stream asks for it each minute in which its source has no news."""
    run._follow_again(follower, lambda: None)
    assert extensions.tried == []
    extensions.broken = set(DAYS)
    follower.follow(DAYS)
    extensions.broken = set()
    small.minutes += 2
    run._follow_again(follower, lambda: None)
    assert follower.pending == set() and set(extensions.published) == set(DAYS)


def test_days_of_which_none_can_be_computed_end_no_stream(
    follower: Follower, extensions: Extensions, reports: list[str]
) -> None:
    """The logic is broken, perhaps: raw goes on, and each start brings up to date what is left."""
    extensions.broken = set(DAYS)
    follower.follow(DAYS)
    follower.follow([])
    assert follower.pending == set(DAYS) and len(reports) == 1


def test_a_refused_publication_is_reported_as_before(
    follower: Follower, extensions: Extensions, reports: list[str]
) -> None:
    extensions.broken, extensions.error = {DAYS[0]}, PublicationRefused("the code is in no commit")
    follower.follow(DAYS)
    assert follower.pending == set(DAYS) and len(extensions.tried) == 1
    assert reports == [f"{DAYS[0]}..{DAYS[-1]} will follow later: the code is in no commit"]


@pytest.mark.parametrize(
    "error", [PySparkException("Caused by: java.io.IOException: No space left on device"), ValueError("a bug")]
)
def test_a_full_disk_and_an_error_of_this_program_end_the_stream(
    follower: Follower, extensions: Extensions, error: Exception
) -> None:
    extensions.broken, extensions.error = {DAYS[0]}, error
    with pytest.raises(type(error)):
        follower.follow(DAYS)
