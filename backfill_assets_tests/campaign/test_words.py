"""What is typed about a plan in any state does what it says, or is refused with the command that helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.cli import foreground
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.plans import keep_plan, open_plan, open_plan_ids
from backfill_assets.lakehouse.records import DayContent, Provenance, Publication
from backfill_assets.lakehouse.timelines import GateVerdict, open_timelines
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest, Why
from backfill_assets.publish import publisher as publisher_module
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.death import Died
from backfill_assets_tests.played_lake import no_spark

pytestmark = pytest.mark.protocol
TABLE, DAY, NEXT = "fact_daily_revenue", date(2017, 3, 1), date(2017, 3, 2)
PLAN = Plan(
    asked=PlanRequest(target=TABLE, days=f"{DAY}..{NEXT}"),
    steps=(PlannedStep(tables=(TABLE,), version="v1", rebuild={Why.CODE_CHANGED: (f"{DAY}..{NEXT}",)}),),
    made_at=datetime(2017, 6, 1, tzinfo=UTC),
)
CAMPAIGN = campaign_of(PLAN.id)
OTHER = "campaign-00000000000000ff"
PLAN_AGAIN = f"backfill plan {TABLE} --days {DAY}..{NEXT}"
OLD, NEW = {DAY: [1], NEXT: [2]}, {DAY: [5], NEXT: [6]}
Ids = Mapping[date, Sequence[int]]


class PlayedCampaign:
    """``before`` has published both days; what is asked of the plan is typed into ``backfill``."""

    def __init__(self, backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
        self.backfill, self.lakehouse = backfill, backfill.lakehouse
        self.monkeypatch = monkeypatch
        self.lakehouse.publish("before", {TABLE: OLD})
        keep_plan(self.lakehouse.storage, PLAN.id, PLAN.to_json())

    def enter(self, kind: journal.Kind, step: str = "", *, reason: str = "", **report: object) -> None:
        entry = JournalEntry(kind=kind, step=step, at=datetime.now(UTC), by="ana", reason=reason, report=report)
        journal.write(self.lakehouse.storage, CAMPAIGN, entry)

    def entries(self) -> list[str]:
        return [entry.kind for entry in journal.entries(self.lakehouse.storage, CAMPAIGN)]

    def start(self) -> None:
        self.enter("started")
        self.enter("step", CampaignStep.ANNOUNCE)
        open_plan(self.lakehouse.storage, PLAN.id)

    def stage(self, replaces: str = "before", days: Ids = NEW) -> None:
        """It waits for approval."""
        if not self.entries():
            self.start()
        for step in STEPS[1:5]:
            self.enter("step", step, fingerprint="f")
        timeline = self.lakehouse.stage(f"{CAMPAIGN}-0a1b2c3d", TABLE, days)
        timeline.open()
        verdicts = {
            day: GateVerdict(input_fingerprint="x", passed=True, content=content_of(ids), replaces=replaces)
            for day, ids in days.items()
        }
        timeline.judge(verdicts)

    def approve(self) -> None:
        self.enter("approved", reason=PLAN.id, fingerprint="f")

    def publish(self, id: str = "cut", campaign: str = CAMPAIGN, rows: Ids = NEW) -> None:
        """On the log; the journal does not know yet."""
        assert isinstance(self.lakehouse.publish_request(self.request(id, campaign, rows)), Published)

    def request(self, id: str, campaign: str, rows: Ids = NEW) -> Publication:
        made = Provenance(campaign=campaign, launched_by="ana")
        return self.lakehouse.request(id, {TABLE: rows}).model_copy(update={"provenance": made})

    def cut_over(self, last: CampaignStep = CampaignStep.NOTIFY, id: str = "cut") -> None:
        """Published, and done up to ``last``."""
        self.stage()
        self.approve()
        self.publish(id)
        self.enter("step", CampaignStep.CUT_OVER, publication=id, days={TABLE: [f"{DAY}..{NEXT}"]})
        for step in STEPS[6 : STEPS.index(last) + 1]:
            self.enter("step", step)

    def die_in_cut_over(self, at: CrashPoint) -> None:
        """Approved, and killed inside its publication."""
        self.stage()
        self.approve()
        request = self.request("cut", CAMPAIGN)
        self.lakehouse.crash_at = at
        try:
            self.lakehouse.publish_request(request)
        except Died:
            self.lakehouse.crash_at = None

    def undo(self) -> str:
        return str(self.backfill.json("rollback", PLAN.id, "--yes")["publication"])

    def undo_of(self, publication: str) -> str:
        self.backfill("rollback", publication, "--yes")
        return str(self.backfill.json("history", "--limit", "1")["publications"][0]["publication"])

    @contextmanager
    def dying(self, at: CrashPoint) -> Iterator[None]:
        """Every publisher that is opened meanwhile dies there."""

        def die(step: CrashPoint, about: str) -> None:
            if step is at:
                raise Died(about)

        original = publisher_module.Publisher.__init__

        def init(self: publisher_module.Publisher, *given: object, **named: object) -> None:
            original(self, *given, **{**named, "reached": die})  # type: ignore[arg-type]

        with self.monkeypatch.context() as patch:
            patch.setattr(publisher_module.Publisher, "__init__", init)
            yield

    def ids(self) -> list[int]:
        return sorted(self.lakehouse.newest(TABLE).to_pyarrow_table().column("id").to_pylist())

    def publications(self) -> list[str]:
        """Oldest first."""
        return list(dict.fromkeys(each["publication"] for each in self.backfill.json("history")["publications"]))[::-1]


def content_of(ids: Sequence[int]) -> DayContent:
    return DayContent(rows=len(ids), checksum=str(sum(ids)), code_version="v1", inputs="", metrics={"rows": len(ids)})


RUN, ROLLBACK, APPROVE = (f"backfill {word} {PLAN.id}" for word in ("run", "rollback", "approve"))


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedCampaign:
    monkeypatch.setattr(foreground, "foreground_spark", no_spark)
    monkeypatch.setattr("backfill_assets.plan.keep.require_carried_out", lambda *_, **__: None)
    return PlayedCampaign(Backfill(tmp_path / "home", monkeypatch), monkeypatch)


@pytest.fixture
def carried_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a command went on with, instead of doing it."""
    moves: list[str] = []

    def carry_on(at: CampaignRun, **_: object) -> None:
        moves.append(at.next().reason)

    for where in ("campaigns", "verbs.approve"):
        monkeypatch.setattr(f"backfill_assets.cli.{where}.carry_on", carry_on)
    return moves


def refused(played: PlayedCampaign, *words: str) -> str:
    return " ".join(played.backfill(*words, exit_code=1).stderr.split())


# ------------------------------------------------------------------ undone, and undone again


@pytest.mark.parametrize("at", [CrashPoint.PREPARED, CrashPoint.CLOSING])
def test_an_undo_that_was_killed_is_finished_by_the_next_one_and_not_repeated(
    played: PlayedCampaign, at: CrashPoint
) -> None:
    played.cut_over()
    with played.dying(at), pytest.raises(Died):
        played.backfill("rollback", PLAN.id, "--yes")
    said = refused(played, "rollback", PLAN.id, "--yes")
    *_, undo = played.publications()
    assert played.publications() == ["before", "cut", undo] and played.ids() == [1, 2]
    assert f"is undone already: {undo} did it on 20" in said and f"backfill rollback {undo}" in said
    played.backfill("rollback", undo, "--yes")
    assert played.ids() == [5, 6]


def test_an_undone_plan_is_not_given_up(played: PlayedCampaign, carried_on: list[str]) -> None:
    played.cut_over()
    undo = played.undo()
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is undone already: {undo} did it on 20" in said
    assert RUN in said and f"backfill rollback {undo}" in said and "rollback window" in said
    played.backfill("run", PLAN.id)
    assert carried_on == ["wave 1 of 2: canary"]


def test_a_plan_that_is_staged_again_and_comes_back_by_the_undo_of_its_undo_is_live(played: PlayedCampaign) -> None:
    """The daemon would publish it once more by the approval of what was staged again."""
    played.cut_over()
    undo = played.undo()
    played.enter("resumed")
    for step in ("shadow_backfilled", "validated"):
        played.enter("step", step)
    played.approve()
    redo = played.undo_of(undo)
    said = refused(played, "approve", PLAN.id, "--yes")
    assert f"{PLAN.id} is published already, as {redo}" in said and ROLLBACK in said


@pytest.mark.parametrize("number", [0, 4])
def test_a_campaign_with_a_damaged_journal_is_given_up(played: PlayedCampaign, number: int) -> None:
    """Every command is refused with the one that helps; the entry is kept beside the others."""
    played.stage()
    storage, path = played.lakehouse.storage, f"_campaigns/{CAMPAIGN}/{number:06d}.json"
    storage.write_bytes(path, b'{"kind": "sta')
    assert f"backfill timeline delete {PLAN.id}" in refused(played, "run", PLAN.id)
    played.backfill("timeline", "delete", PLAN.id, "--yes")
    assert not open_plan_ids(storage) and not open_timelines(storage, TABLE)
    assert played.backfill.json("status", PLAN.id)["standing"] == "given up"
    assert storage.read_bytes(f"{path}.damaged") == b'{"kind": "sta'
    assert "was given up: " in refused(played, "timeline", "delete", PLAN.id, "--yes")


@pytest.mark.parametrize("number", [0, 5])
def test_one_that_is_published_is_not_given_up_and_can_be_rolled_back(played: PlayedCampaign, number: int) -> None:
    """The log knows what its damaged journal does not."""
    played.cut_over()
    played.lakehouse.storage.write_bytes(f"_campaigns/{CAMPAIGN}/{number:06d}.json", b"")
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is published, as cut" in said and ROLLBACK in said
    played.backfill("rollback", PLAN.id, "--yes")
    assert played.ids() == [1, 2]


# ------------------------------------------------------------------ half published


@pytest.mark.parametrize(("word", "at"), [("run", CrashPoint.PREPARED), ("approve", CrashPoint.CLOSING)])
def test_half_a_publication_is_finished_and_gone_on_with(
    played: PlayedCampaign, carried_on: list[str], at: CrashPoint, word: str
) -> None:
    """It was approved: neither staged again nor asked for a second time."""
    played.die_in_cut_over(at)
    played.backfill(word, PLAN.id, *(["--yes"] if word == "approve" else []))
    assert carried_on == ["step 7 of 9: downstream rebuilt"]
    assert played.publications() == ["before", "cut"] and played.ids() == [5, 6]


def test_half_a_publication_is_not_given_up(played: PlayedCampaign) -> None:
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    said = refused(played, "timeline", "delete", PLAN.id, "--yes")
    assert f"{PLAN.id} is published, as cut" in said and ROLLBACK in said
    assert played.ids() == [5, 6]


def test_an_undo_of_a_cut_over_that_no_journal_knew_is_not_published_again(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Its approval was still there: the next step would have been the cut-over."""
    played.die_in_cut_over(CrashPoint.TABLE_COMMITTED)
    undo = played.undo()
    assert played.entries()[-2:] == ["step", "rolled back"]
    assert f"{PLAN.id} is undone already: {undo}" in refused(played, "approve", PLAN.id, "--yes")
    assert carried_on == []


# ------------------------------------------------------------------ overtaken


@pytest.mark.parametrize("words", [("run", PLAN.id), ("approve", PLAN.id, "--yes")])
def test_an_overtaken_plan_is_planned_again(
    played: PlayedCampaign, carried_on: list[str], words: tuple[str, ...]
) -> None:
    """Run said approve, and approve said run."""
    played.stage()
    played.publish("theirs", OTHER, {NEXT: [9]})
    said = refused(played, *words)
    assert f"{TABLE} {NEXT} was brought by {OTHER} (theirs), since {PLAN.id} staged it" in said
    assert f"Plan again: {PLAN_AGAIN}" in said
    (shown,) = played.backfill.json("status", PLAN.id)["next"]
    assert f"Plan again: {PLAN_AGAIN}" in shown and APPROVE not in shown
    assert carried_on == []
    played.backfill("timeline", "delete", PLAN.id, "--yes")


def test_another_campaign_that_was_undone_itself_overtakes_nothing(
    played: PlayedCampaign, carried_on: list[str]
) -> None:
    """Planning again would give the same plan."""
    played.stage()
    played.publish("theirs", OTHER, {NEXT: [9]})
    played.undo_of("theirs")
    played.backfill("run", PLAN.id)
    assert carried_on


# ------------------------------------------------------------------ rolled back by a person since


def test_an_approval_names_days_that_a_person_rolled_back_since_they_were_staged(
    played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes them: the person who says yes has to know."""
    played.lakehouse.publish("nightly", {TABLE: {NEXT: [3]}})
    played.stage(replaces="nightly", days={DAY: [5], NEXT: [6]})
    with clock.use(played.lakehouse.time):
        roll_back(
            played.lakehouse.publisher,
            "nightly",
            id="by-hand",
            steps=CATALOG.steps,
            provenance=Provenance(launched_by="eva"),
        )
    monkeypatch.setattr("backfill_assets.answers.campaign.staged_notice", _no_notice)
    said = played.backfill("approve", PLAN.id, exit_code=2).output
    assert f"Rolled back since, by by-hand, and published by a yes: {TABLE} {NEXT}." in " ".join(said.split())


def test_a_program_that_approves_gets_these_days_too(played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that the plan would not have changed, which is staged for the first time when it is approved."""
    played.lakehouse.publish("nightly", {TABLE: {DAY: [3], NEXT: [3]}})
    played.stage(replaces="nightly", days={DAY: [5]})
    by_hand = played.undo_of("nightly")

    def publish(at: CampaignRun, **_: object) -> None:
        played.publish()
        played.enter("step", CampaignStep.CUT_OVER, publication="cut", days={})

    monkeypatch.setattr("backfill_assets.cli.verbs.approve.carry_on", publish)
    values = played.backfill.json("approve", PLAN.id, "--yes")
    assert values["rolled_back_since"] == {by_hand: {TABLE: [f"{DAY}..{NEXT}"]}}


def _no_notice(_: object) -> Any:
    from backfill_assets.lakehouse.records import Notice

    return Notice(title="It was rebuilt")
