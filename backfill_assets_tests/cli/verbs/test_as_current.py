"""``timeline publish --as-current``: one publication brings days and version, and the way back too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from deltalake import write_deltalake

from backfill_assets import clock
from backfill_assets.answers import machine
from backfill_assets.cli import foreground
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import TimelineVersion, find_timeline
from backfill_assets.lakehouse.plans import plan_ids
from backfill_assets.lakehouse.records import Provenance, Publication, Switch
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.promote import FEW_TRIES
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import Builder
from backfill_assets.settings import Settings
from backfill_assets.timeline.of_version import fresh_timelines, take_days
from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.death import Died
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.small_lakehouse import SmallLakehouse
from backfill_assets_tests.two_versions import (
    DAYS,
    FACT,
    FORMER,
    RATES,
    READY,
    REVENUE,
    SALES,
    keep_first_version,
    publish_facts,
    publish_inputs,
)

FIRST, SECOND = "v1", "v2"
SWITCH = ("timeline", "publish", READY, "--as-current", "--yes")


kept_first_version = built_once(keep_first_version)


@pytest.fixture
def kept(kept_first_version: Backfill, monkeypatch: pytest.MonkeyPatch) -> Backfill:
    """v1 is on a timeline and v2 is in main; no Spark may be started from here on."""
    monkeypatch.setattr(foreground, "foreground_spark", no_spark)
    return kept_first_version


def _ids(backfill: Backfill, table: str = FACT) -> dict[date, list[int]]:
    rows = backfill.lakehouse.newest(table).to_pyarrow_table().to_pylist()
    return {day: sorted(row["id"] for row in rows if row["day"] == day) for day in DAYS}


def _files(backfill: Backfill, table: str = FACT) -> set[str]:
    main = MainTable.open(backfill.lakehouse.storage, table)
    assert main is not None
    return set(main.state().active)


def _current(backfill: Backfill) -> tuple[str, str]:
    """The current version, and the publication that made it so."""
    found = backfill.lakehouse.publisher.log.head().state.current.get(FACT)
    return (found.version, found.publication) if found else (CATALOG.step(FACT).current, "")


def _counts(answer: Mapping[str, Any], column: str = "days") -> dict[str, int]:
    return {row["table"]: row[column] for row in answer.get("changes", ())}


OLD, NEW = ({day: sorted([number, day.day]) for day in DAYS} for number in (100, 200))


def test_a_switch_and_the_way_back_bring_days_and_version_together(kept: Backfill) -> None:
    """Who, when, from and to are in the history; the timeline that is current now names main's files."""
    files = _files(kept)
    assert _ids(kept) == NEW
    there = kept.json(*SWITCH)
    assert (there["from"], there["to"]) == (SECOND, FIRST)
    assert _counts(there) == _counts(there, "with_other_rows") == {FACT: len(DAYS), REVENUE: len(DAYS)}
    assert (_ids(kept), _ids(kept, REVENUE)) == (OLD, OLD)
    assert _current(kept) == (FIRST, there["publication"])
    former = kept.json("timeline", "show", FORMER)
    assert (former["days_behind"], former["fresh"]) == (0, True)
    newest, *_ = kept.json("history", "--limit", "1")["publications"]
    assert (newest["publication"], newest["table"]) == (there["publication"], FACT)
    assert newest["code"] == {"from": "", "to": FIRST} and "backfill timeline publish --as-current" in newest["by"]
    assert newest["reason"] == f"switch of {FACT} from {SECOND} to {FIRST}"
    back = kept.json("timeline", "publish", FORMER, "--as-current", "--yes")
    assert (_ids(kept), _ids(kept, REVENUE)) == (NEW, NEW)
    assert _files(kept) == files, "no file was copied"
    assert _current(kept) == (SECOND, back["publication"])


def test_what_others_did_to_main_is_no_reason_to_keep_less_of_it(kept: Backfill) -> None:
    """Rows that they added are on the timeline of the former version; a day that they emptied is there as it was."""
    table, files = kept.lakehouse.newest(FACT), _files(kept)
    added, emptied, *_ = DAYS
    rows = table.to_pyarrow_table(filters=[("day", "=", added)]).slice(0, 1)
    write_deltalake(table, rows, mode="append")
    table.delete(f"day = '{emptied}'")
    theirs = _files(kept) - files
    kept(*SWITCH)
    former = find_timeline(kept.lakehouse.storage, FORMER, clock.now())
    held = {day: {file.path for file in each.files} for day, each in former.held(FACT).items()}
    assert len(theirs) == 1 and theirs < held[added]
    assert set().union(*held.values()) == files | theirs and held[emptied]


def test_a_report_without_the_facts_that_it_differs_through_is_not_published(kept: Backfill) -> None:
    """There was a plan of no day, which could not end, and was under way for ever."""
    said = " ".join(kept("timeline", "publish", READY, "--table", REVENUE, exit_code=1).stderr.split())
    assert f"{REVENUE} differs on {READY} only through {FACT}: without that, nothing of {REVENUE}" in said
    assert f"backfill timeline publish {READY}" in said
    assert not plan_ids(kept.lakehouse.storage)


def test_a_rollback_puts_days_and_version_back_and_can_be_undone(kept: Backfill) -> None:
    done = kept.json(*SWITCH)
    undone = kept.json("rollback", done["publication"], "--yes")
    assert (_ids(kept), _current(kept)) == (NEW, (SECOND, ""))
    kept("rollback", undone["publication"], "--yes")
    assert _ids(kept) == OLD and _current(kept)[0] == FIRST


@pytest.mark.parametrize("at", [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED, CrashPoint.CLOSING])
def test_a_killed_switch_is_finished_by_the_next_command(
    kept: Backfill, at: CrashPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers who pin the log see v2 until it is closed, and v1 from then on, in both tables."""
    from backfill_assets.publish import publisher as module

    def dies(step: CrashPoint, about: str) -> None:
        if step is at:
            raise Died(about)

    original = module.Publisher.__init__

    def dying(self: module.Publisher, *given: object, **named: object) -> None:
        original(self, *given, **{**named, "reached": dies})  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module.Publisher, "__init__", dying)
        with pytest.raises(Died):
            kept(*SWITCH)
    assert kept.lakehouse.publisher.log.head().state.switches == {}
    assert "current already" in kept(*SWITCH, exit_code=1).stderr
    assert _ids(kept) == _ids(kept, REVENUE) == OLD


def test_a_switch_that_dies_before_it_is_on_the_log_leaves_a_timeline_that_equals_main(
    kept: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    from backfill_assets.timeline import switch

    before = _ids(kept)
    with monkeypatch.context() as patch:
        patch.setattr(switch, "Publication", Mock(side_effect=Died("before the log")))
        with pytest.raises(Died):
            kept(*SWITCH)
    assert (_ids(kept), _current(kept)[0]) == (before, SECOND)
    assert "follows main" in kept("timeline", "forward", FORMER).output
    kept(*SWITCH)
    assert _ids(kept) == OLD


def test_a_timeline_that_is_behind_is_refused_with_the_days_until_it_is_refreshed(kept: Backfill) -> None:
    before = _ids(kept)
    kept.lakehouse.publish("late", {SALES: {DAYS[1]: [7, 8]}})
    assert kept.json("timeline", "show", READY)["days_behind"] == 1
    refused = kept(*SWITCH, exit_code=1).stderr
    assert f"behind by 1 day: {FACT} {DAYS[1]}" in refused and f"backfill timeline forward {READY}" in refused
    assert _ids(kept) == before
    publish_facts(kept.lakehouse, "three", [DAYS[1]], FIRST, 300)
    kept("timeline", "forward", READY)
    assert kept.json("timeline", "show", READY)["days_behind"] == 0
    kept(*SWITCH)
    assert _ids(kept)[DAYS[1]] == sorted([300, DAYS[1].day])


def _meanwhile(monkeypatch: pytest.MonkeyPatch, move: Callable[[int], object]) -> list[int]:
    """After each plan of a switch, ``move`` is called with its number; gives the numbers."""
    from backfill_assets.timeline import switch

    planned, numbers = switch.plan_switch, list[int]()

    def moved(*given: object, **named: object) -> object:
        plan = planned(*given, **named)  # type: ignore[arg-type]
        numbers.append(len(numbers) + 1)
        move(numbers[-1])
        return plan

    monkeypatch.setattr(switch, "plan_switch", moved)
    return numbers


def _names(kept: Backfill) -> list[str]:
    return [each["timeline"] for each in kept.json("timeline", "list")["timelines"]]


def test_a_switch_that_main_moved_under_is_planned_again(kept: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeline is right still. What main held at last is on the timeline of the former version."""
    move = partial(publish_facts, kept.lakehouse, "three", [DAYS[0]], SECOND)
    plans = _meanwhile(monkeypatch, lambda number: move(300) if number == 1 else None)
    kept(*SWITCH)
    assert (plans, _ids(kept), _current(kept)[0]) == ([1, 2], OLD, FIRST)
    kept("timeline", "publish", FORMER, "--as-current", "--yes")
    assert _ids(kept) == {**NEW, DAYS[0]: sorted([300, DAYS[0].day])}


def test_a_switch_that_main_moved_under_is_refused_and_leaves_nothing(
    kept: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has moved each time."""
    lakehouse = kept.lakehouse
    plans = _meanwhile(
        monkeypatch, lambda number: publish_facts(lakehouse, f"no-{number}", [DAYS[0]], SECOND, 300 + number)
    )
    refused = kept(*SWITCH, exit_code=1).stderr
    assert "main has moved" in refused and len(plans) == FEW_TRIES + 1
    assert _ids(kept)[DAYS[0]] == sorted([300 + len(plans), DAYS[0].day])
    assert lakehouse.publisher.log.head().state.switches == {}
    assert _names(kept) == [READY]


def test_a_switch_whose_timeline_is_behind_by_then_leaves_nothing(
    kept: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = _meanwhile(monkeypatch, lambda number: kept.lakehouse.publish(f"late-{number}", {SALES: {DAYS[1]: [7, 8]}}))
    refused = kept(*SWITCH, exit_code=1).stderr
    assert f"behind by 1 day: {FACT} {DAYS[1]}" in refused and plans == [1]
    assert (_ids(kept), _current(kept)[0], _names(kept)) == (NEW, SECOND, [READY])


def test_a_switch_that_another_one_was_faster_than_is_refused(kept: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    switches = {FACT: Switch(version=FIRST)}
    other = Publication(id="other", kind="replace", tables=(), switches=switches)
    _meanwhile(monkeypatch, lambda number: kept.lakehouse.publish_request(other))
    assert "current already" in kept(*SWITCH, exit_code=1).stderr
    assert (_ids(kept), _current(kept)) == (NEW, (FIRST, "other"))


def test_new_days_alone_get_the_version_and_the_log_has_it(kept: Backfill) -> None:
    """The log has it, and its rollback puts it back."""
    before = _ids(kept)
    done = kept.json(*SWITCH, "--new-days-only")
    assert (_ids(kept), _counts(done), done["new_days_only"]) == (before, {}, True)
    for typed in (("history",), ("history", FACT)):
        (newest,) = kept.json(*typed, "--limit", "1")["publications"]
        assert (newest["publication"], newest["table"]) == (done["publication"], FACT)
        assert newest["code"] == {"from": "", "to": FIRST}
    output = kept("rollback", done["publication"], "--yes").output
    assert f"{FACT}: from {FIRST} back to the declared version" in output
    assert _current(kept)[0] == SECOND


def test_the_current_version_is_what_status_run_and_plan_go_by(kept: Backfill) -> None:
    """By v1 the days of v2 are of other code, and a switched step says which declared version it does not have."""
    publish_inputs(kept.lakehouse, "more", [date(2017, 3, 5)])
    kept(*SWITCH, "--new-days-only")
    found = kept.json("status", FACT)
    assert Counter(row["status"] for row in found[FACT]["days"]) == {"stale: code changed": len(DAYS), "missing": 1}
    assert found[FACT]["current_version"] == FIRST
    assert f"{SECOND} is declared and not current" in kept("status").output
    (step,) = kept.json("run", FACT, "--days", "2017-03-04..2017-03-05", "--dry-run")["steps"]
    assert step["version"] == FIRST


def test_what_makes_no_sense_is_refused_with_what_to_type(kept: Backfill) -> None:
    def create(*words: str, code: int = 1) -> str:
        return kept("timeline", "create", *words, exit_code=code).stderr

    assert f"{SECOND} is the current version of {FACT}" in create("x", "--version", f"{FACT}={SECOND}")
    assert "no version 'v9'" in create("x", "--version", f"{FACT}=v9", code=2)
    assert "There is no table 'facts'" in create("x", "--version", "facts=v1")
    assert f"{READY} has v1 of {FACT} already" in create("x", "--version", f"{FACT}={FIRST}")
    assert f"--version {FACT}=V" in create("x", "--version", FACT, code=2)
    assert "add --yes" in kept(*SWITCH[:-1], exit_code=2).stderr
    assert "--as-current" in kept("timeline", "publish", READY, "--new-days-only", exit_code=2).stderr
    assert "--table" in kept(*SWITCH, "--table", FACT, exit_code=2).stderr
    assert "go forward as OTHER" in kept("timeline", "forward", READY, "--version", SECOND, exit_code=2).stderr
    kept("timeline", "create", "trial")
    refused = kept("timeline", "publish", "trial", "--as-current", "--yes", exit_code=1).stderr
    assert "not a timeline of a version" in refused and "--version STEP=V" in refused
    assert "not a timeline of a version" in kept("timeline", "keep", "trial", "--fresh", exit_code=1).stderr


def test_it_is_kept_fresh_until_it_is_said_otherwise(kept: Backfill) -> None:
    assert kept.json("timeline", "keep", READY, "--not-fresh")["fresh"] is False
    assert fresh_timelines(kept.lakehouse.storage, kept.lakehouse.now()) == []
    kept("timeline", "keep", READY, "--fresh", "by-v1")
    assert [each.name for each in fresh_timelines(kept.lakehouse.storage, kept.lakehouse.now())] == ["by-v1"]
    (row,) = kept.json("timeline", "list")["timelines"]
    assert row["of"] == f"{FACT} {FIRST}, kept fresh"
    kept("timeline", "forward", "by-v1", "trial", "--version", FIRST)
    assert "step" not in kept.json("timeline", "show", "trial"), "a copy is of no version"


def test_a_dry_run_shows_the_days_and_changes_nothing(kept: Backfill) -> None:
    before, publications = _ids(kept), kept.json("history")
    assert _counts(kept.json(*SWITCH, "--dry-run"))[FACT] == len(DAYS)
    assert (_ids(kept), kept.json("history")) == (before, publications)


def test_days_that_are_the_same_in_both_stay_as_they_are(kept: Backfill) -> None:
    """Only the days that differ are in the publication; the timeline of the former version has all of them."""
    publish_facts(kept.lakehouse, "three", [DAYS[0]], FIRST, 100)
    done = kept.json(*SWITCH)
    assert _counts(done) == {FACT: 3, REVENUE: 3}
    storage, now = kept.lakehouse.storage, kept.lakehouse.now()
    former = find_timeline(storage, FORMER, now)
    assert len(former.held(FACT)) == len(DAYS)


def test_some_days_alone_can_be_kept_and_only_these_are_switched(backfill: Backfill) -> None:
    publish_inputs(backfill.lakehouse, "in", DAYS)
    publish_facts(backfill.lakehouse, "one", DAYS, FIRST, 100)
    backfill("timeline", "create", READY, "2017-03-02..2017-03-03", "--version", f"{FACT}={FIRST}")
    backfill("timeline", "forward", READY)
    publish_facts(backfill.lakehouse, "two", DAYS, SECOND, 200)
    done = backfill.json(*SWITCH)
    assert _counts(done) == {FACT: 2, REVENUE: 2}
    assert [ids[-1] for ids in _ids(backfill).values()] == [200, 100, 100, 200]


def test_the_timeline_of_the_current_version_follows_main_by_naming_its_files(kept: Backfill) -> None:
    kept(*SWITCH)
    publish_facts(kept.lakehouse, "three", [DAYS[0]], FIRST, 300)
    kept("timeline", "forward", READY)
    following = find_timeline(kept.lakehouse.storage, READY, kept.lakehouse.now())
    named = {file.path for held in following.held(FACT).values() for file in held.files}
    assert named == _files(kept)
    revision = following.revision
    kept("timeline", "forward", READY)
    assert find_timeline(kept.lakehouse.storage, READY, kept.lakehouse.now()).revision == revision


def test_files_of_a_timeline_of_a_version_are_not_reclaimed(kept: Backfill) -> None:
    """They are what a switch brings, however long ago main let go of them."""
    from backfill_assets.upkeep.reclaim import reclaim

    kept.lakehouse.minutes += 60 * 24 * 100
    for table in (FACT, REVENUE, RATES):
        with clock.use(kept.lakehouse.time):
            reclaim(kept.lakehouse.publisher, table, clock_checked=True)
    kept(*SWITCH)
    assert _ids(kept) == OLD


@pytest.fixture
def gone(kept: Backfill) -> Backfill:
    """The fact was switched to v9, by code that is not there any more."""
    switches = {FACT: Switch(version="v9")}
    kept.lakehouse.publish_request(Publication(id="gone", kind="replace", tables=(), switches=switches))
    return kept


def test_a_current_version_that_is_not_declared_any_more_stops_runs_and_plans_and_nothing_else(gone: Backfill) -> None:
    words = f"{FACT} was switched to v9, which is not declared any more"
    days = ("--days", "2017-03-01..2017-03-04")
    assert words in gone("run", FACT, *days, "--dry-run", exit_code=1).stderr
    gone("run", FACT, *days, "--version", "v2", "--dry-run")
    planned = gone("plan", FACT, *days, exit_code=1).output
    assert "is not declared" in planned and "--as-current --new-days-only" in planned
    assert "was switched to v9" not in gone("plan", FACT, *days, "--version", "v1", exit_code=1).output
    assert words in gone("status").output
    found = machine.current_versions(Settings.at(gone.home), CATALOG.steps)
    assert found.verdict == "warn" and words in found.found
    gone("timeline", "create", "v2-ready", "--version", f"{FACT}={SECOND}")
    gone("timeline", "publish", "v2-ready", "--as-current", "--new-days-only", "--yes")
    gone("run", FACT, *days, "--dry-run")


def test_timelines_of_what_is_not_declared_any_more_are_reported_and_can_be_deleted(kept: Backfill) -> None:
    """A version that is gone, and a step that is."""
    lake = Builder.from_settings(Settings.at(kept.home), CATALOG, no_spark).lake
    made, _ = take_days(lake, TimelineVersion(step=FACT, version="v0"), {}, "created", "ana")
    assert f"v0 of {FACT} is not declared any more" in kept("timeline", "forward", made.name).output
    assert "days_behind" not in kept.json("timeline", "show", made.name)
    refused = kept("timeline", "publish", made.name, "--as-current", "--yes", exit_code=1).stderr
    assert f"v0 of {FACT} is not declared any more" in refused and f"timeline delete {made.name}" in refused
    made, _ = take_days(lake, TimelineVersion(step="former_sales", version="v1"), {}, "created", "ana")
    assert kept.json("timeline", "show", made.name)["step"] == "former_sales"
    refused = kept("timeline", "publish", made.name, "--as-current", exit_code=1).stderr
    assert "former_sales is not declared any more" in refused
    kept("timeline", "delete", made.name, "--yes")


def test_a_campaign_whose_days_a_switch_has_put_back_is_not_undone_once_more(
    backfill: Backfill, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The undo published the days that both versions make alike, and its own undo said "In force again"."""
    monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
    lakehouse, plan = backfill.lakehouse, "plan-0123456789abcdef"
    made = campaign_of(plan)
    publish_inputs(lakehouse, "in", DAYS)
    publish_facts(lakehouse, "one", DAYS, FIRST, 100)
    backfill("timeline", "create", READY, "--version", f"{FACT}={FIRST}")
    backfill("timeline", "forward", READY)
    ids = {day: [100 if day == DAYS[-1] else 200, day.day] for day in DAYS}
    facts = lakehouse.request("cut-fact", {FACT: ids}, code=SECOND, inputs=_inputs(lakehouse, FACT, SECOND))
    brought = {day.day: day.logical for change in facts.tables for day in change.days}
    revenue = lakehouse.request("cut", {REVENUE: ids}, inputs=_inputs(lakehouse, REVENUE, FIRST, {FACT: brought}))
    cut = {"tables": (*facts.tables, *revenue.tables), "inputs": facts.inputs, "provenance": Provenance(campaign=made)}
    lakehouse.publish_request(revenue.model_copy(update=cut))
    switched = backfill.json(*SWITCH)["publication"]
    for option in ("--dry-run", "--yes"):
        refused = backfill("rollback", plan, option, exit_code=1).stderr
        assert f"its days are as they were before that already: {switched} did it" in refused
        assert f"To bring them back: backfill rollback {switched}" in refused
    newest = [each["publication"] for each in backfill.json("history", "--limit", "2")["publications"]]
    assert list(dict.fromkeys(newest)) == [switched, "cut"]
    backfill("rollback", switched, "--yes")
    assert _ids(backfill) == {day: sorted(ids[day]) for day in DAYS}
    backfill("rollback", plan, "--yes")
    assert _ids(backfill) == OLD


def _inputs(
    lakehouse: SmallLakehouse, table: str, version: str, brought: Mapping[str, Mapping[date, str]] | None = None
) -> dict[date, str]:
    """The fingerprint of what each day is computed from: days that are ``brought``, and main's."""
    step = CATALOG.step(table)
    reads = decide.read_days(step, step.version(version), list(DAYS))
    pinned = lakehouse.publisher.pin({}, reads).inputs
    logicals = {**{name: read.days for name, read in pinned.items()}, **(brought or {})}
    return {day: found.inputs for day, found in decide.wanted(step, step.version(version), DAYS, logicals).items()}
