"""Any moves at any time: an approval publishes what it was given for, or what still is within every bound.

A campaign of three days of one table goes through its real validation, approval and cut-over. Staging, main and the
rows of a comparison are numbers in memory, and at every moment in between something may move, or the process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.campaign import cutover, decisions, review, staging
from backfill_assets.campaign import look as campaign_look
from backfill_assets.campaign import steps as campaign_work
from backfill_assets.campaign.ends import record_step
from backfill_assets.campaign.options import Options
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.campaign.staging import judge_wave
from backfill_assets.days import TableDay
from backfill_assets.difference import find as difference
from backfill_assets.difference import find as difference_search
from backfill_assets.difference.compare import TableComparison
from backfill_assets.difference.difference import RowCounts, Sides, Sums, TableCompared
from backfill_assets.difference.find import last_difference
from backfill_assets.difference.verdict import Difference
from backfill_assets.errors import BackfillError, CampaignStopped, InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep
from backfill_assets.lakehouse.campaign_reports import Report
from backfill_assets.lakehouse.records import (
    HELD_BACK,
    DayContent,
    DayState,
    Expected,
    InputRead,
    Publication,
    day_record,
)
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.limits import Limits
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest
from backfill_assets.publish.publisher import Conflict, Pin, Published, Readers
from backfill_assets.publish.rows import ARROW_SCHEMA
from backfill_assets.publish.senders import LogSender
from backfill_assets.quality.measures import compared_metrics
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Lake
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.stage import StagedTableDay
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, StepBuilt, staged_by
from backfill_assets.state import readers
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.text import percent
from backfill_assets_tests.death import Died
from backfill_assets_tests.strategies.how_many import drawn

DAYS = (date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3))
STEP = CATALOG.step("fact_daily_revenue")
TABLE, MEASURE = STEP.name, "revenue_eur"
BEFORE, PLANNED = 100, 105
MOMENTS_OF_STAGING = MOMENTS_OF_COMPARING = 3
MOST_A_DAY, MOST_IN_ALL = Decimal("0.2"), Decimal("0.1")
MADE = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = Plan(
    asked=PlanRequest(
        target=TABLE,
        days=f"{DAYS[0]}..{DAYS[-1]}",
        expectations=(Expectation.parse(f"{MEASURE} < 20% a day"),),
    ),
    steps=(PlannedStep(tables=(TABLE,), version="v1", rebuild={Cause.CODE_CHANGED: (f"{DAYS[0]}..{DAYS[-1]}",)}),),
    made_at=MADE,
)
OPTIONS = Options(limits=Limits.parse("deviation=10%,gates=none"))
Amounts = dict[date, int]
Act = Callable[["World"], None]


class InMemory(Storage):
    """The few operations that a journal, a hold and a kept difference need, without a disk."""

    @cached_property
    def held(self) -> dict[str, bytes]:
        return {}

    def exists(self, path: str) -> bool:
        return path in self.held

    def files(self, path: str, *, recursive: bool = False) -> list[StoredFile]:
        return [StoredFile(name, len(data), 0) for name, data in self.held.items() if name.startswith(f"{path}/")]

    def read_bytes(self, path: str) -> bytes:
        if path not in self.held:
            raise FileNotFoundError(path)
        return self.held[path]

    def write_bytes(self, path: str, data: bytes) -> None:
        self.held[path] = data

    def replace_bytes(self, path: str, data: bytes, *, kept: bool = True) -> None:
        self.held[path] = data

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return self.held.setdefault(path, data) is data

    def delete(self, path: str) -> None:
        self.held.pop(path, None)


class World:
    """``source`` is what staging a day gives now, ``main`` what is published. Every number has a publication."""

    def __init__(self, acts: Sequence[Act]) -> None:
        self.storage = InMemory("memory")
        self.acts = iter(acts)
        self.source: Amounts = dict.fromkeys(DAYS, PLANNED)
        self.main: Amounts = dict.fromkeys(DAYS, BEFORE)
        self.bad: set[date] = set()
        self.left_out: set[date] = set()
        """The bad days when the last days were staged."""
        self.looked = False
        self.reads = 0
        self.publications: dict[date, str] = dict.fromkeys(DAYS, "first")
        self.published: list[Publication] = []
        self.share = Decimal(0)
        """By how much what was published changes the sum of its days."""
        self.shown: dict[str, Sides] = {}
        self.quiet = False
        self.log = SimpleNamespace(
            storage=self.storage,
            head=lambda: SimpleNamespace(version=len(self.published), state=SimpleNamespace(open={})),
            files=lambda: SimpleNamespace(newest_first=self.closed),
            day_states=lambda *_: self.states(),
            find_prepared=self.prepared,
        )
        publisher = SimpleNamespace(
            recover=lambda tables=(): {}, now=lambda: MADE, publish=self.publish, log=self.log, storage=self.storage
        )
        lake = Lake(CATALOG, self.storage, cast("Any", publisher), cast("Any", None), cast("Any", None), "")
        self.at = CampaignRun(Builder(lake), PLAN, RunInfo("r", launched_by="ana"), lambda _: None)

    def moment(self) -> None:
        """Something may happen now."""
        if not self.quiet:
            next(self.acts, lambda _: None)(self)

    # ------------------------------------------------------------------ main

    def states(self) -> dict[TableDay, DayState]:
        return {TableDay(TABLE, day): self.state(day) for day in DAYS}

    def state(self, day: date) -> DayState:
        publication = self.publications[day]
        return DayState(TABLE, day, publication, 0, fingerprints.physical([publication]), holding(self.main[day]))

    def write(self, day: date, amount: int, publication: str) -> None:
        self.main[day], self.publications[day] = amount, publication

    def prepared(self, publication: str) -> Any:
        found = [each for each in self.published if each.id == publication]
        other = SimpleNamespace(kind="replace", provenance=SimpleNamespace(campaign="", undoes=""))
        return SimpleNamespace(publication=found[0] if found else other), MADE

    def closed(self, columns: Sequence[str], **_: object) -> Iterator[pa.Table]:
        common = {"at": MADE, "outcome": "done"}
        rows = [{"publication": each.id, "sequence": number, **common} for number, each in enumerate(self.published)]
        yield pa.Table.from_pylist(rows, schema=pa.schema([ARROW_SCHEMA.field(name) for name in columns]))

    def publish(self, publication: Publication, reading: Readers) -> Published | Conflict:
        """Compare-and-swap; what it lets through is checked against what its approver saw."""
        self.moment()
        publication = reading.completed(publication)
        (change,) = publication.tables
        moved = [each.day for each in change.days if each.expected.publication != self.publications[each.day]]
        if moved:
            return Conflict({TABLE: frozenset(moved)}, reasons=("moved",))
        amounts = {each.day: amount_of(each.content) for each in change.days}
        self.check(amounts)
        for day, amount in amounts.items():
            self.write(day, amount, publication.id)
        self.published.append(publication)
        self.moment()
        return Published(publication.id, {TABLE: 1})

    def check(self, amounts: Amounts) -> None:
        """What is promised, from the numbers alone."""
        changes = {day: (self.main[day], amount) for day, amount in amounts.items()}
        for day, (was, now) in changes.items():
            assert abs(now - was) < MOST_A_DAY * was, f"{day} breaks the expectation: {was} -> {now}"
        before, after = (sum(both[side] for both in changes.values()) for side in (0, 1))
        self.share = Decimal(after - before) / before
        contents = {TableDay(TABLE, day): (logical(was), logical(now)) for day, (was, now) in changes.items()}
        contents |= {TableDay(TABLE, day): HELD_BACK for day in self.left_out}
        if abs(self.share) > MOST_IN_ALL:
            approved = self.at.state.approved
            assert approved is not None
            assert self.shown[str(approved.fingerprint)] == contents, "published beyond a limit without being shown"
        assert self.at.options.without_held_back or not self.left_out, "a day was left out without --without-held-back"
        kept = last_difference(self.storage, PLAN.id)
        assert kept is not None
        assert self.looked or kept.sides == contents, "what is kept is what is published"

    # ------------------------------------------------------------------ staging and comparing

    def shadow(self, *_: object) -> list[StepBuilt]:
        """Main first, then the source: what is staged may be newer than what main held, and never older."""
        self.moment()
        states = self.states()
        self.moment()
        self.left_out = set(self.bad)
        pin = self._pin(states)
        changed = [day for day in DAYS if self.source[day] != amount_of(states[TableDay(TABLE, day)].content)]
        staged = {day: [self._staged(day, pin)] for day in changed if day not in self.bad}
        held = tuple(HeldBack(TABLE, day, (BROKEN,)) for day in sorted(self.bad))
        timelines = {"t": Timeline(self.storage, TABLE, f"{self.at.campaign}-t")}
        asked = StepRequest(STEP, DAYS, "v1")
        build = StepBuild(
            self.at.builder.lake, asked, self.at.run, self.at.progress, staged=staged, timelines=timelines
        )
        unchanged = tuple(sorted(set(DAYS) - set(changed) - self.bad))
        found = [StepBuilt(build, unchanged, (), tuple(staged), held, build.records())]
        self.moment()
        return found

    def _staged(self, day: date, pin: Pin) -> StagedTableDay:
        return StagedTableDay(TABLE, day, (), holding(self.source[day]), (), pin, "")

    def _pin(self, states: Mapping[TableDay, DayState]) -> Pin:
        expected = {
            key: Expected(files=(state.publication,), publication=state.publication) for key, state in states.items()
        }
        reads = decide.read_days(STEP, STEP.version("v1"), DAYS)
        inputs = {name: InputRead(table=name, version=0, days=dict.fromkeys(days, "x")) for name, days in reads.items()}
        return Pin(expected, inputs, states)

    def observe(self, *_: object) -> LogView:
        self.moment()
        states = self.states()
        return LogView(states=states, pinned={TABLE: {day: state.physical for (_, day), state in states.items()}})

    def files(self, observed: LogView, *_: object) -> Any:
        return {day: day_record(day, (), state.content) for (_, day), state in observed.states.items()}

    def rows(self, beside: Any, found: TableCompared, days: Sequence[date]) -> TableCompared:
        """One row a day, which changes."""
        self.moment()
        self.reads += 1
        read = list(found.days)
        for day in days:
            before, after = (amount_of(content) for content in (beside.before[day].content, beside.after[day].content))
            sums = {name: Sums() for name in STEP.tables[0].totals} | {
                MEASURE: Sums(before=Decimal(before), after=Decimal(after))
            }
            read.append(beside._day(day, "compared", RowCounts(changed=1), sums))
        self.moment()
        return found.model_copy(update={"days": tuple(sorted(read, key=lambda each: each.day))})

    # ------------------------------------------------------------------ what people do

    def looks(self) -> None:
        """``backfill diff``: the difference that is kept is another one now."""
        self.looked, left_out = True, self.left_out
        with self.silence():
            done = self.shadow()
            if any(each.staged for each in done):
                review.compare_and_keep(self.at, done, lambda _: None)
                self.show()
        self.left_out = left_out

    def show(self) -> None:
        if kept := last_difference(self.storage, PLAN.id):
            self.shown[kept.fingerprint] = kept.sides

    @contextmanager
    def silence(self) -> Iterator[None]:
        was, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = was

    def carry_on(self, by_command: bool) -> None:
        """The next thing that a person or the daemon does about the campaign."""
        course = self.at.state
        if self.is_cut_over:
            return
        if not course.started or course.stopped:
            self.begin()
        elif CampaignStep.VALIDATE not in course.done:
            self.do(CampaignStep.VALIDATE)
        elif course.approved is None:
            self.approve(by_command)
        else:
            self.do(CampaignStep.CUT_OVER)

    def approve(self, by_command: bool) -> None:
        """By what the command shows, or by what the UI says of the step before."""
        seen = last_difference(self.storage, PLAN.id) if by_command else None
        held = bool(self.at.state.validation.held_back)
        try:
            decisions.approve(self.at, without_held_back=held, seen=seen)
        except InvalidRequest:
            self.begin()

    def begin(self) -> None:
        """Up to where all is staged."""
        decisions.start(self.at, OPTIONS)
        for step in STEPS[: STEPS.index(CampaignStep.VALIDATE)]:
            record_step(self.at, step, Report())

    def do(self, step: CampaignStep) -> None:
        try:
            campaign_work.do_step(self.at, step, LogSender(lambda _: None), cast("Any", None))
        finally:
            self.show()

    @property
    def is_cut_over(self) -> bool:
        return CampaignStep.CUT_OVER in self.at.state.done


BROKEN = RuleOutcome("a_gate", "validity", passed=False, observed="1", expected="0")


def holding(amount: int) -> DayContent:
    """Of one row; everything that is compared was measured."""
    others = dict.fromkeys(compared_metrics(STEP.tables[0]), 0)
    return DayContent(rows=1, checksum=str(amount), metrics={**others, f"total_{MEASURE}": str(amount)})


def change_of(found: Difference) -> Decimal:
    change = found.tables[0].total(MEASURE).change
    assert change is not None
    return change


def logical(amount: int) -> str:
    return holding(amount).logical


def amount_of(content: DayContent | None) -> int:
    assert content is not None
    return int(content.checksum)


@contextmanager
def world_of(acts: Sequence[Act]) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        world = World(acts)

        def read(beside: Any, found: TableCompared, days: Sequence[date], _only: Any) -> TableCompared:
            return world.rows(beside, found, days)

        for module in (staging, cutover):
            patch.setattr(module, "shadow", world.shadow)
        for module in (staging, difference):
            patch.setattr(module, "observe", world.observe)
        patch.setattr(readers, "observe_each", lambda *_, **__: LogView())
        patch.setattr(difference, "records_seen", world.files)
        patch.setattr(TableComparison, "_with_rows", read)
        patch.setattr(review, "html", lambda _: "")
        patch.setattr(campaign_look, "_put_back_by", lambda *_: "")
        yield world


def moves(day: date, amount: int) -> Act:
    """Rows arrive late: the day is staged again."""
    return lambda world: world.source.update({day: amount})


def is_published(day: date, amount: int) -> Act:
    """Another writer changed main: the comparison with the staged day no longer holds."""
    return lambda world: world.write(day, amount, f"other-{day}-{amount}-{len(world.shown)}")


def spoils(day: date) -> Act:
    return lambda world: world.bad.symmetric_difference_update({day})


def dies(_: World) -> None:
    raise Died


@pytest.fixture
def world() -> Iterator[World]:
    """It waits for approval: three days change by 5 %."""
    with world_of([]) as found:
        found.carry_on(by_command=True)
        found.carry_on(by_command=True)
        yield found


def test_what_moved_within_the_bounds_is_published_and_reported(world: World) -> None:
    """The difference that is kept, the notice and the journal say what was published, and name the day."""
    world.carry_on(by_command=True)
    world.source[DAYS[1]] = 108
    world.carry_on(by_command=True)
    (publication,) = world.published
    assert world.main == {**dict.fromkeys(DAYS, PLANNED), DAYS[1]: 108}
    kept = last_difference(world.storage, PLAN.id)
    assert kept is not None and change_of(kept) == 18
    assert publication.notice is not None
    assert publication.notice.lines[0].endswith("revenue_eur +6.0 %.")
    assert publication.notice.lines[1].startswith(f"Moved after the approval: {TABLE} {DAYS[1]}. ")
    assert world.at.state.cut_over.moved == {TABLE: (str(DAYS[1]),)}


def test_a_wave_is_judged_by_what_it_staged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of a later wave may be staged from before the campaign was begun again: it is staged anew in its turn."""
    before = dict(zip(DAYS, (PLANNED, PLANNED, 10 * PLANNED), strict=True))
    source, world.source = world.source, before
    (old,) = world.shadow()
    world.source = source
    monkeypatch.setattr(difference_search, "days_staged_in", lambda *_: staged_by([old]))
    monkeypatch.setattr(difference_search, "with_days_that_stay", lambda _, __, staged: staged)
    assert len(world.at.waves) > 1
    judge_wave(world.at, 0, world.shadow())
    kept = last_difference(world.storage, PLAN.id)
    assert kept is not None and change_of(kept) == 15


def test_beyond_a_limit_it_waits_for_an_approval_of_what_there_is_now(world: World) -> None:
    """A person who has looked at the new difference may approve it, and it is published as it was shown."""
    world.carry_on(by_command=True)
    world.source = dict.fromkeys(DAYS, 114)
    with pytest.raises(CampaignStopped, match=r"waits for approval again\. Nothing was published\.") as waits:
        world.carry_on(by_command=True)
    assert f"{TABLE} {DAYS[0]}..{DAYS[2]}. {TABLE}.{MEASURE} differs by 14 %" in str(waits.value)
    assert f"backfill status {PLAN.id}" in str(waits.value.hint) and not world.published
    assert world.at.next().reason.startswith("it waits for approval again: Moved after the approval")
    kept = last_difference(world.storage, PLAN.id)
    assert kept is not None and change_of(kept) == 42
    reads = world.reads
    world.carry_on(by_command=False)
    world.carry_on(by_command=False)
    assert world.main == dict.fromkeys(DAYS, 114) and world.reads == reads, "it did not move since it was shown"


def test_a_broken_expectation_stops_it_and_cannot_be_approved(world: World) -> None:
    """Running the plan again can only break it again: it says what else there is to do."""
    world.carry_on(by_command=True)
    world.source[DAYS[1]] = 150
    with pytest.raises(CampaignStopped, match=f"{TABLE} {DAYS[1]}.* Not as expected: {MEASURE} < 20% a day") as stopped:
        world.carry_on(by_command=True)
    for command in (f"backfill plan {TABLE} --days {DAYS[0]}..{DAYS[2]} --expect", "timeline delete"):
        assert command in str(stopped.value.hint)
    assert "backfill run" not in str(stopped.value.hint)
    for seen in (None, last_difference(world.storage, PLAN.id)):
        with pytest.raises(InvalidRequest, match="was stopped") as refused:
            decisions.approve(world.at, seen=seen)
        assert refused.value.hint == str(stopped.value.hint).removeprefix("Nothing was published. ")
    assert not world.published and world.at.next().reason.startswith("it was stopped")


def test_what_moves_in_the_seconds_of_the_cut_over_is_judged_as_well(world: World) -> None:
    """It was as approved when the cut-over began. Other writers are asked to wait then, and need not."""
    world.carry_on(by_command=True)
    begun = [lambda _: None] * MOMENTS_OF_STAGING
    world.acts = iter([*begun, moves(DAYS[1], 150)])
    with pytest.raises(CampaignStopped, match="Not as expected"):
        world.carry_on(by_command=True)
    assert not world.published


def test_after_a_death_before_the_publication_nothing_is_read_again(world: World) -> None:
    """The comparison of the dead process is kept; it is used as long as both sides are as they were."""
    world.carry_on(by_command=True)
    world.source[DAYS[1]] = 108
    until_it_publishes = [lambda _: None] * (MOMENTS_OF_STAGING + MOMENTS_OF_COMPARING + MOMENTS_OF_STAGING)
    world.acts = iter([*until_it_publishes, dies])
    with pytest.raises(Died):
        world.carry_on(by_command=True)
    reads = world.reads
    assert not world.published
    world.carry_on(by_command=True)
    assert world.is_cut_over and world.reads == reads and world.main[DAYS[1]] == 108


def test_what_the_command_shows_is_not_approved_if_it_is_not_as_expected(world: World) -> None:
    """A person has looked again since the campaign was validated."""
    world.source[DAYS[1]] = 150
    world.looks()
    with pytest.raises(InvalidRequest, match=f"is not as expected: {MEASURE}"):
        decisions.approve(world.at, seen=last_difference(world.storage, PLAN.id))
    assert world.at.state.approved is None


def test_a_day_that_comes_to_be_held_back_is_left_out_knowingly(world: World) -> None:
    """Not by an approval from before: it waits, and the next one says so."""
    world.carry_on(by_command=True)
    world.bad = {DAYS[2]}
    with pytest.raises(CampaignStopped, match=f"Days are held back: {TABLE} {DAYS[2]}"):
        world.carry_on(by_command=True)
    with pytest.raises(InvalidRequest, match="are held back"):
        decisions.approve(world.at)
    decisions.approve(world.at, without_held_back=True)
    world.do(CampaignStep.CUT_OVER)
    assert world.main == {**dict.fromkeys(DAYS, PLANNED), DAYS[2]: BEFORE}


def test_a_limit_that_is_exceeded_names_its_option() -> None:
    with world_of([]) as world:
        world.source = dict.fromkeys(DAYS, 114)
        world.carry_on(by_command=True)
        with pytest.raises(CampaignStopped) as stopped:
            world.carry_on(by_command=True)
        assert f"backfill run {PLAN.id} --limits deviation=VALUE" in str(stopped.value.hint)


DAY = st.sampled_from(DAYS)
AMOUNT = st.sampled_from((96, 104, 108, 114, 118, 122, 150))
"""Beside 100: within every bound; beyond the limit if all days are so, and the expectation holds; beyond that."""
ACTS = st.lists(
    st.one_of(
        st.just(lambda _: None),
        st.builds(moves, DAY, AMOUNT),
        st.builds(is_published, DAY, AMOUNT),
        st.builds(spoils, DAY),
        st.just(World.looks),
        st.just(dies),
    ),
    min_size=2,
    max_size=20,
)


@pytest.mark.protocol
@pytest.mark.timeout(120)
@settings(max_examples=drawn(30))
@given(acts=ACTS, calm=st.booleans(), commands=st.lists(st.booleans(), min_size=9, max_size=9))
def test_nothing_is_published_that_breaks_a_bound_and_was_not_seen(
    acts: Sequence[Act], calm: bool, commands: Sequence[bool]
) -> None:
    """``World.check`` looks at every publication. ``calm``: the campaign waits for its approval before things happen.

    When everything stands still again, it comes to its end.
    """
    with world_of(acts) as world:
        with world.silence():
            for _ in range(2 if calm else 0):
                world.carry_on(by_command=True)
        for by_command in commands:
            with suppress(BackfillError, Died):
                world.carry_on(by_command)
        world.quiet, world.bad = True, set()
        if not world.published:
            world.source = {day: amount + 1 for day, amount in world.main.items()}
        for _ in range(9):
            with suppress(BackfillError):
                world.carry_on(by_command=True)
        assert world.is_cut_over
        (publication,) = world.published
        assert world.at.state.cut_over.publication == publication.id and publication.notice is not None
        days = "this day" if len(publication.tables[0].days) == 1 else f"these {len(publication.tables[0].days)} days"
        expected = f"; on {days} {MEASURE} {percent(world.share)}." if world.share else "change."
        assert publication.notice.lines[0].endswith(expected)
