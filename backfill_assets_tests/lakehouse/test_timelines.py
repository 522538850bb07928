"""Timelines: days are listed, never guessed from files, and only passed days of just these inputs are adopted."""

from __future__ import annotations

from datetime import date

import pytest
from deltalake import CommitProperties, write_deltalake

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.plans import pinned_versions
from backfill_assets.lakehouse.timelines import (
    AdoptedFrom,
    GateVerdict,
    StagedAs,
    Timeline,
    TimelineEntry,
    adoptable,
    newest_verdicts,
    open_timelines,
)
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets_tests.begun_campaign import begin, going
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake
from backfill_assets_tests.protocol.staging import content, rows_table, stage

PLAN = "plan-0123456789abcdef"


def _judge(timeline: Timeline, day: date, passed: bool = True, fingerprint: str | None = None) -> None:
    verdict = GateVerdict(input_fingerprint=fingerprint or f"of {day}", passed=passed, content=content(["a"]))
    timeline.judge({day: verdict})


def test_a_day_without_rows_is_staged_too(lake: Lake) -> None:
    """It has no file: publishing by files would leave the old rows of an emptied day in place."""
    timeline = stage(lake.storage, "t", "one", {D1: ["a"], D2: []})
    days = timeline.days()
    assert {day: len(staged.files) for day, staged in days.items()} == {D1: 1, D2: 0}
    assert days[D1].files[0].path.startswith("_timelines/one/day=")


def test_a_verdict_belongs_to_the_staging_it_judged(lake: Lake) -> None:
    """A day that is staged again has not been judged, and a late verdict on the older rows is not one on the newer."""
    timeline = stage(lake.storage, "t", "one", {D1: ["a"]})
    _judge(timeline, D1)
    assert timeline.days()[D1].verdict is not None
    entry = TimelineEntry(staged={D1: StagedAs(input_fingerprint="newer")}).model_dump_json()
    properties = CommitProperties(custom_metadata={"userMetadata": entry})
    write_deltalake(timeline.uri, rows_table({D1: ["b"]}), mode="overwrite", commit_properties=properties)
    assert timeline.days()[D1].verdict is None
    _judge(timeline, D1)
    assert timeline.days()[D1].verdict is None
    _judge(timeline, D1, fingerprint="newer")
    assert timeline.days()[D1].verdict is not None


def test_only_passed_days_from_the_same_inputs_are_adopted(lake: Lake) -> None:
    """The work of a killed run is reused where it is still right; a day that failed its gate never is."""
    timeline = stage(lake.storage, "t", "one", {D1: ["a"], D2: ["b"], D3: ["c"]})
    _judge(timeline, D1)
    _judge(timeline, D2, passed=False)
    wanted = {D1: f"of {D1}", D2: f"of {D2}", D3: f"of {D3}"}
    assert set(adoptable([timeline], wanted)) == {D1}
    assert not adoptable([timeline], {D1: "other inputs"})


def test_an_adopted_day_is_found_where_it_was_staged(lake: Lake) -> None:
    """Its rows are not copied; and a day that is staged here afterwards is this timeline's own again."""
    there = stage(lake.storage, "t", "timeline-1-a", {D1: ["a"], D2: []})
    _judge(there, D1)
    _judge(there, D2)
    own = Timeline(lake.storage, "t", "campaign-x-1")
    own.open()
    from_there = AdoptedFrom(timeline=there.name, replaces="later")
    own.adopt(there.schema(), {D1: from_there, D2: from_there, D3: from_there})
    assert own.files() == []
    days = own.days()
    assert days.keys() == {D1, D2}
    assert {verdict.replaces for each in days.values() if (verdict := each.verdict)} == {"later"}
    assert days[D1].files == there.days()[D1].files
    assert newest_verdicts(lake.storage, ["t"], "campaign-x").keys() == {TableDay("t", D1), TableDay("t", D2)}
    assert adoptable([own], {D1: f"of {D1}"})[D1][0] == there
    assert own.adopted_from() == {there.name}
    stage(lake.storage, "t", own.name, {D1: ["b"]})
    assert own.days()[D1].files[0].path.startswith(f"{own.folder}/")


def test_the_first_timeline_that_has_a_day_wins(lake: Lake) -> None:
    """Newest first: the days that a run began with are the likeliest to be whole."""
    first, second = (stage(lake.storage, "t", name, {D1: [name]}) for name in ("first", "second"))
    _judge(first, D1)
    _judge(second, D1)
    assert adoptable([second, first], {D1: f"of {D1}"})[D1][0] == second


def test_days_whose_files_are_gone_are_not_adopted(lake: Lake) -> None:
    """Publishing would refuse them, and the next attempt would find and adopt them again, for ever."""
    timeline = stage(lake.storage, "t", "one", {D1: ["a"]})
    _judge(timeline, D1)
    (lake.root / "t" / timeline.days()[D1].files[0].path).unlink()
    assert not adoptable([timeline], {D1: f"of {D1}"})


def test_open_timelines_are_listed_newest_name_first(lake: Lake) -> None:
    """A later run looks through them for work to reuse; a closed one has nothing left."""
    for name in ("run-1", "run-2", "run-3"):
        Timeline(lake.storage, "t", name).open()
    Timeline(lake.storage, "t", "run-2").close()
    assert [timeline.name for timeline in open_timelines(lake.storage, "t")] == ["run-3", "run-1"]
    assert not open_timelines(lake.storage, "u")


@pytest.mark.parametrize("name", [".DS_Store", "notes.txt", "Run 1"])
def test_a_stray_file_among_the_markers_stops_nothing(lake: Lake, name: str) -> None:
    """Neither among open timelines nor among journals: each run and each night looks through both."""
    Timeline(lake.storage, "t", "run-1").open()
    lake.storage.write_bytes(f"t/_timelines/_open/{name}", b"")
    assert [timeline.name for timeline in open_timelines(lake.storage, "t")] == ["run-1"]
    maintenance = Maintenance(lake.publisher(), ["t"], timeline_days=14)
    lake.publish("p1", {"t": {D1: ["a"]}})
    assert maintenance.plan() == ()
    begin(lake.storage, PLAN)
    for folder in ("_campaigns", f"_campaigns/{campaign_of(PLAN)}"):
        lake.storage.write_bytes(f"{folder}/{name}", b"")
    assert going(lake.storage) == [PLAN]
    assert pinned_versions(lake.storage, lake.clock, going(lake.storage)) == {}


def test_an_empty_timeline_holds_no_days(lake: Lake) -> None:
    timeline = Timeline(lake.storage, "t", "none")
    assert not timeline.exists()
    assert timeline.days() == {}
    with pytest.raises(InvalidRequest, match="holds nothing"):
        timeline.schema()
    with pytest.raises(InvalidRequest, match="nothing to judge"):
        timeline.judge({})


@pytest.mark.parametrize("name", ["../t", "_open", "Run", "", "a" * 101])
def test_names_that_could_leave_the_folder_are_refused(lake: Lake, name: str) -> None:
    """A timeline's name becomes a path: it must stay below its table."""
    with pytest.raises(InvalidRequest, match="cannot name a timeline"):
        Timeline(lake.storage, "t", name)
