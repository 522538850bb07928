"""Days of different versions are built in one go: each by its own, all of them in one publication. No JVM starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LogicEdited
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import FactDailyRevenue
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import DayContent, Publication, Switch
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.model.declaration import Reads, RuleOutcome, Source, Step, Table, Version
from backfill_assets.model.logic import logic_of
from backfill_assets.publish.holds import held_days
from backfill_assets.publish.promote import silent
from backfill_assets.publish.publisher import Pin, Publisher
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.decide import AS_PUBLISHED
from backfill_assets.rebuild.outcome import BuildResult, DaysFailed, RunInfo
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.rolled_back import Undo, UndoIs
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
OLD, NEW, NEVER = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)
V1, V2 = Version("v1", "", (Reads("bronze"),), dict), Version("v2", "", (Reads("bronze"), Reads("rates")), dict)
STEP = Step((Table("fact", "fact", "", FactDailyRevenue, ()),), (V1, V2), "v2")
SOURCE = Source("landed", "day", ("id",), "id", ("id", "day"))
READ = tuple(Step((Table(name, "raw", "", FactDailyRevenue, ()),), source=SOURCE) for name in ("bronze", "rates"))


class World:
    """Three days of what the fact reads. OLD of the fact is published by v1, NEW by v2, NEVER not at all.

    Each day is staged by both versions, as by a run that died: what is built is adopted, and computes nothing.
    """

    logic = ""
    """What staged days say of the logic that made them."""

    def __init__(self, small: SmallLakehouse) -> None:
        self.small = small
        self.lake = lake_of(small, catalog=CATALOG)

    def begin(self) -> None:
        days = (OLD, NEW, NEVER)
        for table in ("bronze", "rates"):
            self.small.publish(table, {table: {day: [1] for day in days}})
        for day, version in ((OLD, V1), (NEW, V2)):
            self.publish(day, version)
        for version in (V1, V2):
            self.stage(version, days)

    def publish(self, day: date, version: Version, code: str = "") -> None:
        rows = {"fact": {day: [int(version.name[1:])]}}
        self.small.minutes += 1
        name = f"{code or version.name}-{day}-{int(self.small.minutes)}"
        self.small.publish(name, rows, code=code or version.name, inputs={day: self.wanted(version, day).inputs})

    def damage(self, *days: date) -> None:
        for day in days:
            self.small.write_past_the_protocol("fact", day, [77])

    def wanted(self, version: Version, day: date) -> decide.InputFingerprint:
        logicals = {table: {day: fingerprints.logical(1, 1)} for table in ("bronze", "rates")}
        return decide.wanted(STEP, version, [day], logicals)[day]

    def stage(self, version: Version, days: Sequence[date], broken: RuleOutcome | None = None) -> None:
        name = f"20170401t000000-{version.name}-{int(self.small.minutes)}"
        staged = {day: self.wanted(version, day) for day in days}
        inputs = {day: found.input_fingerprint for day, found in staged.items()}
        timeline = self.small.stage(name, "fact", {day: [int(version.name[1:])] for day in days}, inputs)
        timeline.judge({day: self.verdict(version, found) for day, found in staged.items()})
        timeline.open()

    def verdict(self, version: Version, wanted: decide.InputFingerprint) -> GateVerdict:
        content = DayContent(1, version.name[1:], version.name, inputs=wanted.inputs, logic=self.logic)
        return GateVerdict(input_fingerprint=wanted.input_fingerprint, passed=True, content=content)

    def build(
        self, *days: date, version: str | None = None, force: bool = False, later: Sequence[date] = ()
    ) -> BuildResult:
        return Builder(self.lake).build(STEP, days, run=RunInfo("a-run"), version=version, force=force, later=later)

    def repair(self, *days: date, force: bool = False) -> BuildResult:
        """As the run of a repair builds them."""
        run = RunInfo("a-repair")
        return Builder(self.lake).build(STEP, days, run=run, version=AS_PUBLISHED, force=force, repairs=True)

    def undo(self, day: date) -> str:
        """A person rolls back what has published the day."""
        self.small.minutes += 1
        name = f"undo-{int(self.small.minutes)}"
        undone = self.lake.states(STEP)[TableDay("fact", day)].publication
        roll_back(self.lake.publisher, undone, id=name, steps=(*READ, STEP))
        return name

    def switch(self, version: str) -> None:
        """For new days alone."""
        switches = {"fact": Switch(version=version)}
        self.small.publish_request(Publication(id="switch", kind="replace", tables=(), switches=switches))

    def versions(self) -> dict[date, str]:
        states = self.lake.states(STEP).values()
        return {state.day: state.content.code_version for state in states if state.content}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> SmallLakehouse:
    found = World(SmallLakehouse(tmp_path_factory.mktemp("begun") / "lakehouse", [STEP]))
    with clock.use(found.small.time):
        found.begin()
    return found.small


@pytest.fixture
def world(begun: SmallLakehouse, tmp_path: Path) -> Iterator[World]:
    found = World(begun.copy(tmp_path / "lakehouse"))
    with clock.use(found.small.time):
        yield found


def test_each_day_is_built_by_the_version_that_it_was_published_with_in_one_publication(world: World) -> None:
    """A day that is not published yet has no version, and gets the current one."""
    world.damage(OLD, NEW)
    result = world.build(OLD, NEW, NEVER, version=AS_PUBLISHED)
    assert [(day.day, day.code_version) for day in result.days] == [(OLD, "v1"), (NEW, "v2"), (NEVER, "v2")]
    assert len(result.publications) == 1
    assert {day.publication for day in result.days} == set(result.publications)
    assert world.versions() == {OLD: "v1", NEW: "v2", NEVER: "v2"}
    rows = world.small.newest("fact").to_pyarrow_table().to_pylist()
    assert sorted((row["day"], row["id"]) for row in rows) == [(OLD, 1), (NEW, 2), (NEVER, 2)]


def test_without_being_asked_a_build_uses_the_current_version(world: World) -> None:
    """That is what a person means who launches days."""
    world.build(OLD, NEW)
    assert world.versions() == {OLD: "v2", NEW: "v2"}


def test_new_days_get_the_version_that_a_publication_switched_to_and_others_keep_theirs(world: World) -> None:
    world.switch("v1")
    result = world.build(OLD, NEW, NEVER, version=AS_PUBLISHED)
    assert {day.day: (day.code_version, day.reused) for day in result.days} == {
        OLD: ("v1", True),
        NEW: ("v2", True),
        NEVER: ("v1", False),
    }
    world.build(NEW)
    assert world.versions() == {OLD: "v1", NEW: "v1", NEVER: "v1"}, "what a person launches gets the current version"


def test_new_days_of_a_version_that_is_not_declared_any_more_are_refused(world: World) -> None:
    """Days that keep a declared version are built, and so are those of a version that is named."""
    world.switch("v9")
    for version in (None, AS_PUBLISHED):
        with pytest.raises(InvalidRequest, match="fact was switched to v9, which is not declared any more"):
            world.build(OLD, NEVER, version=version)
    assert all(day.reused for day in world.build(OLD, NEW, version=AS_PUBLISHED).days)
    world.build(NEVER, version="v1")
    assert world.versions()[NEVER] == "v1"


def test_a_version_that_was_edited_since_it_published_days_is_not_built_with(world: World) -> None:
    """Neither over its days nor beside them, whether there is something to compute or not; another version is."""
    world.small.logic["fact"] = "another logic"
    world.publish(OLD, V1)
    for days in ((OLD,), (NEVER,), (OLD, NEVER)):
        with pytest.raises(LogicEdited, match=r"fact 2017-03-01 .* made with another logic than v1 has now"):
            world.build(*days, version="v1", force=True)
    with pytest.raises(LogicEdited, match="nothing was built"):
        world.build(OLD, version=AS_PUBLISHED)
    world.build(NEW, NEVER, version=AS_PUBLISHED)
    world.build(OLD, NEW)
    assert world.versions() == {OLD: "v2", NEW: "v2", NEVER: "v2"}
    world.build(OLD, version="v1")  # no published day is of the other logic any more


def test_days_that_another_logic_has_staged_are_not_taken_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run died, its version was edited, and it is run again: what it staged is of neither logic's days."""
    computed: list[date] = []
    monkeypatch.setattr(StepBuild, "compute", lambda build, days, found: computed.extend(days))

    def stage() -> list[date]:
        StepBuild(world.lake, StepRequest(STEP, (NEVER,), "v2"), RunInfo("a-run"), silent).stage((NEVER,))
        return computed

    world.small.minutes += 1
    world.logic = logic_of(V2).fingerprint
    world.stage(V2, (NEVER,))
    assert stage() == []
    world.small.minutes += 1
    world.logic = "another logic"
    world.stage(V2, (NEVER,))
    assert stage() == [NEVER]


def test_days_that_are_as_they_were_published_are_reused(world: World) -> None:
    """By their own version; the newest would find them changed."""
    result = world.build(OLD, NEW, version=AS_PUBLISHED)
    assert all(day.reused for day in result.days) and result.publications == ()


def test_later_days_keep_their_version_and_are_not_forced(world: World) -> None:
    """They come along because they look back to the others; they were not asked for."""
    result = world.build(OLD, NEW, later=[OLD])
    assert {day.day for day in result.days if day.reused} == {OLD, NEW}
    with pytest.raises(pytest.fail.Exception, match="Spark is asked for"):
        world.build(OLD, NEW, later=[OLD], force=True)
    world.damage(OLD)
    world.build(OLD, NEVER, later=[OLD])
    assert world.versions()[OLD] == "v1"


def test_another_version_that_is_published_meanwhile_is_not_overwritten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A campaign cuts v2 over just before main is looked at: the version is chosen from what that look has found."""
    world.damage(OLD)
    real, once = Publisher.pin, [True]

    def pin(publisher: Publisher, *given: Any, **named: Any) -> Pin:
        if once.pop() if once else False:
            world.publish(OLD, V2)
        return real(publisher, *given, **named)

    monkeypatch.setattr(Publisher, "pin", pin)
    result = world.build(OLD, version=AS_PUBLISHED)
    assert world.versions()[OLD] == "v2"
    assert result.publications == (), "what the campaign published is as it has to be"


def test_a_day_that_a_stream_keeps_extending_is_staged_under_a_hold(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream publishes the day whenever the build is about to, and leaves it alone while it is held."""
    real, held = StepBuild.request, list[frozenset[date]]()

    def request(build: StepBuild) -> Publication:
        found = real(build)
        held.append(held_days(world.small.storage, {"fact": [OLD]}, world.small.now()))
        if not held[-1]:
            world.publish(OLD, V1)
        return found

    monkeypatch.setattr(StepBuild, "request", request)
    result = world.build(OLD)
    assert len(result.publications) == 1 and world.versions()[OLD] == "v2"
    assert held == [frozenset(), frozenset(), {OLD}]
    assert not held_days(world.small.storage, {"fact": [OLD], "bronze": [OLD]}, world.small.now())


def test_a_version_that_is_gone_is_refused_with_what_to_do(world: World) -> None:
    """Before anything is staged, also of the days whose version is there."""
    world.publish(OLD, V1, code="v0")
    world.damage(OLD, NEW)
    with pytest.raises(
        InvalidRequest, match=r"fact 2017-03-01 was published with v0, which is not declared"
    ) as refused:
        world.build(OLD, NEW, version=AS_PUBLISHED)
    assert "backfill run fact+ --days 2017-03-01..2017-03-01" in str(refused.value.hint)
    assert world.versions() == {OLD: "v0", NEW: "v2"}


def test_a_day_that_fails_holds_back_those_of_every_version(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """All failures are named, whichever version built them, and nothing is published."""
    from backfill_assets.rebuild import step_build

    real = step_build._taken_day
    broken = RuleOutcome("few_nulls", "validity", passed=False, observed="9", expected="0")
    monkeypatch.setattr(step_build, "_taken_day", lambda *given: replace(real(*given), rules=(broken,)))
    world.damage(OLD, NEW)
    before = world.small.publisher.log.head().version
    with pytest.raises(DaysFailed) as failed:
        world.build(OLD, NEW, version=AS_PUBLISHED)
    assert {(day.day, day.code_version) for day in failed.value.failed} == {(OLD, "v1"), (NEW, "v2")}
    assert world.small.publisher.log.head().version == before


# ------------------------------------------------------------------ a repair beside people


def test_a_repair_leaves_what_a_person_has_rolled_back_since_it_was_decided(world: World) -> None:
    """Its other days are built. A person who builds the day gets it; and so does a repair once an input has changed."""
    undo = world.undo(OLD)
    world.damage(NEW)
    result = world.repair(OLD, NEW)
    left, built = result.days
    assert (left.held_by, left.is_there, left.publication) == (Undo(undo, UndoIs.HELD), False, undo)
    assert (built.held_by, built.is_there, built.reused) == (None, True, False)
    assert world.versions() == {NEW: "v2"}
    world.build(OLD, version=AS_PUBLISHED)
    assert world.versions() == {OLD: "v2", NEW: "v2"}
    world.undo(OLD)
    world.small.minutes += 1
    world.small.publish("bronze-again", {"bronze": {OLD: [1, 2]}})
    with pytest.raises(pytest.fail.Exception, match="Spark is asked for"):
        world.repair(OLD)


def test_a_rollback_that_comes_while_a_repair_stages_its_day_holds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PREPARE finds the day published by the rollback of another build, and the rule is asked again."""
    real, undone = StepBuild.request, list[str]()

    def request(build: StepBuild) -> Publication:
        found = real(build)
        if not undone:
            world.publish(NEVER, V1)
            undone.append(world.undo(NEVER))
        return found

    monkeypatch.setattr(StepBuild, "request", request)
    world.damage(NEW)
    built, left = world.repair(NEW, NEVER).days
    assert (left.held_by, built.held_by) == (Undo(undone[0], UndoIs.HELD), None)
    assert world.versions() == {OLD: "v1", NEW: "v2"}


def test_a_forced_repair_computes_no_day_that_a_person_has_put_back(world: World) -> None:
    """It is as its inputs are, so nothing is wrong with it; by a version that is declared no more it is left, too."""
    world.publish(OLD, V2)
    world.undo(OLD)
    (kept,) = world.repair(OLD, force=True).days
    assert (kept.reused, kept.held_by, kept.code_version) == (True, None, "v1")
    world.small.publish("by-v0", {"fact": {OLD: [0]}}, code="v0")
    world.publish(OLD, V2)
    undo = world.undo(OLD)
    world.damage(NEW)
    left, built = world.repair(OLD, NEW).days
    assert (left.held_by, left.code_version) == (Undo(undo, UndoIs.HELD), "v0")
    assert (built.code_version, built.reused) == ("v2", False)
