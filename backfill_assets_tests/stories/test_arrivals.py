"""Taking in what arrived: each file once, rows on the day they belong to, and nothing forgotten."""

from __future__ import annotations

import json
import shutil
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.lakehouse.rows import rows_of_files, stage
from backfill_assets.rebuild.ingest import ArrivalBuild
from backfill_assets.rebuild.outcome import BuildResult
from backfill_assets.rebuild.raw_change import StagedChange
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-03")
FIRST, SECOND, THIRD = DAYS


@pytest.fixture
def landed(workshop: Workshop) -> Workshop:
    """Three days with 5 lines each."""
    for day in DAYS:
        land_lines(workshop.settings.landing, day, "shop", 5)
    return workshop


def rows(workshop: Workshop) -> dict[date, int]:
    published = workshop.read("raw_sales", columns=["day"])["day"].tolist()
    return {day: published.count(day) for day in sorted(set(published))}


def counted(result: BuildResult) -> dict[date, int]:
    return {day.day: day.rows for day in result.days}


def test_a_landed_file_counts_once(landed: Workshop, type_on: TypeOn) -> None:
    """However often a day is built, in any range; until a rollback gives its rows and its positions back."""
    backfill = type_on(landed)
    assert counted(landed.build("raw_sales", [FIRST])) == {FIRST: 5}
    first = landed.states("raw_sales")[FIRST]
    assert counted(landed.build("raw_sales", DAYS)) == dict.fromkeys(DAYS, 5)
    assert landed.states("raw_sales")[FIRST] == first
    assert all(day.reused for day in landed.build("raw_sales", [SECOND, THIRD]).days)
    land_lines(landed.settings.landing, SECOND, "second-shop", 3)
    assert counted(landed.build("raw_sales", DAYS)) == rows(landed) == {FIRST: 5, SECOND: 8, THIRD: 5}

    backfill("rollback", landed.states("raw_sales")[SECOND].publication, "--yes")
    assert rows(landed) == dict.fromkeys(DAYS, 5)
    again = landed.build("raw_sales", DAYS)
    assert rows(landed) == {FIRST: 5, SECOND: 8, THIRD: 5}
    undo = backfill.json("history", "raw_sales", "--limit", 2)["publications"][1]["publication"]
    assert {day.day: day.rolled_back_by for day in again.days if day.rolled_back_by} == {SECOND: undo}


def test_a_late_row_lands_on_its_own_day_and_is_reported(landed: Workshop, type_on: TypeOn) -> None:
    """Otherwise everything looks fresh, and no one knows which days to run too."""
    backfill = type_on(landed)
    landed.build("raw_sales", DAYS)
    land_lines(landed.settings.landing, THIRD, "late", 2, {"transaction_timestamp": "2017-03-01T10:00:00Z"})
    told = backfill("run", "raw_sales", "--days", SECOND, "--dry-run").stdout
    assert f"raw_sales: landed on {THIRD} and not ingested: 1 file" in told
    told = backfill("run", "raw_sales", "--days", THIRD).stdout
    assert f"raw_sales: rows were appended to {FIRST} as well" in told and f"run {FIRST} too" in told
    assert "Nothing was computed" not in told
    assert rows(landed) == {FIRST: 7, SECOND: 5, THIRD: 5}
    arrived = landed.read("raw_sales", DayRange.of(FIRST), ["day", "arrival_day"])["arrival_day"].tolist()
    assert arrived.count(THIRD) == 2
    land_lines(landed.settings.landing, THIRD, "later", 1, {"transaction_timestamp": "2017-03-02T10:00:00Z"})
    ran = backfill.json("run", "raw_sales", "--days", THIRD)
    assert [step["appended_elsewhere"] for step in ran["steps"]] == [{"raw_sales": [str(SECOND)]}]
    assert "not ingested" not in json.dumps(ran)


def test_only_files_that_were_measured_are_published(
    landed: Workshop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run can have adopted the same timeline, and write into it while this one is measuring."""
    judge = ArrivalBuild.judge

    def meanwhile(build: ArrivalBuild, staged: StagedChange, *others: Any) -> None:
        assert staged.timeline
        stage(rows_of_files(spark, staged.timeline, staged.timeline.files()), staged.timeline, {}, other_days=True)
        judge(build, staged, *others)

    monkeypatch.setattr(ArrivalBuild, "judge", meanwhile)
    assert counted(landed.build("raw_sales", DAYS)) == dict.fromkeys(DAYS, 5)
    assert rows(landed) == dict.fromkeys(DAYS, 5)


@pytest.mark.parametrize("killed", [False, True], ids=["it looks again", "it is run again"])
def test_a_marker_that_another_run_has_published_meanwhile_is_not_published_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Both have the newer version, which was delivered twice; markers are the same however rows are ingested."""
    same = {"basket_id": "77", "product_id": "88", "transaction_timestamp": "2017-03-01T10:00:00Z"}
    land_lines(workshop.settings.landing, FIRST, "older", 1, {**same, "updated_at": "2017-03-01T12:00:00Z"})
    workshop.build("raw_sales", [FIRST])
    moved = {**same, "transaction_timestamp": "2017-03-03T10:00:00Z", "updated_at": "2017-03-03T12:00:00Z"}
    land_lines(workshop.settings.landing, THIRD, "newer", 1, moved)
    folder = workshop.settings.landing / "sales"
    shutil.copytree(folder / str(THIRD), folder / str(SECOND))
    judge = ArrivalBuild.judge

    def beside_another(build: ArrivalBuild, *about: Any) -> None:
        judge(build, *about)
        monkeypatch.setattr(ArrivalBuild, "judge", judge)
        if killed:
            raise KeyboardInterrupt
        workshop.build("raw_sales", [SECOND])

    monkeypatch.setattr(ArrivalBuild, "judge", beside_another)
    if killed:
        with pytest.raises(KeyboardInterrupt):
            workshop.build("raw_sales", [THIRD])
        workshop.build("raw_sales", [SECOND])
    workshop.build("raw_sales", [THIRD])
    assert any("taken over from an earlier run" in line for line in workshop.messages) == killed
    raw = workshop.read("raw_sales", columns=["record_kind", "day", "superseded_by_day"])
    assert rows(workshop) == {FIRST: 2, THIRD: 2}
    markers = raw[raw["record_kind"] == "supersession"]
    assert markers[["day", "superseded_by_day"]].to_numpy().tolist() == [[FIRST, THIRD]]
