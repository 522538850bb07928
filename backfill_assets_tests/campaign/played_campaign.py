"""A plan and its campaign as a person has them before him: brought into any state, and asked by ``backfill``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime

import pytest

from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import STEPS, CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import DayContent, Provenance, Publication
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest
from backfill_assets.publish import publisher as publisher_module
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets.state.diagnosis import Cause
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.foreign import demand_feature

TABLE, DAY, NEXT = "fact_daily_revenue", date(2017, 3, 1), date(2017, 3, 2)
PLAN = Plan(
    asked=PlanRequest(target=TABLE, days=f"{DAY}..{NEXT}"),
    steps=(PlannedStep(tables=(TABLE,), version="v1", rebuild={Cause.CODE_CHANGED: (f"{DAY}..{NEXT}",)}),),
    made_at=datetime(2017, 6, 1, tzinfo=UTC),
)
CAMPAIGN, OTHER = campaign_of(PLAN.id), "campaign-00000000000000ff"
OLD, NEW = {DAY: [1], NEXT: [2]}, {DAY: [5], NEXT: [6]}
Ids = Mapping[date, Sequence[int]]


class PlayedCampaign:
    """``before`` has published both days, here or where it was ``begun``; what is asked is typed into ``backfill``."""

    def __init__(self, backfill: Backfill, monkeypatch: pytest.MonkeyPatch, begun: Backfill | None = None) -> None:
        monkeypatch.setenv("BACKFILL_ROLLBACK_WINDOW_DAYS", "100000")
        self.backfill, self.lakehouse = backfill, backfill.lakehouse
        self.monkeypatch = monkeypatch
        if begun is not None:
            backfill.begin_as(begun)
            return
        self.lakehouse.publish("before", {TABLE: OLD})
        keep_plan(self.lakehouse.storage, PLAN.id, PLAN.to_json())

    def refused(self, *words: str) -> str:
        """What a person is told then, in one line."""
        return " ".join(self.backfill(*words, exit_code=1).stderr.split())

    def enter(self, kind: journal.Kind, step: str = "", *, reason: str = "", **report: object) -> None:
        log = self.lakehouse.publisher.log.head().version
        said = {"kind": kind, "step": step, "reason": reason, "report": report, "log": log}
        entry = JournalEntry.model_validate({"at": datetime.now(UTC), "by": "ana", **said})
        journal.write(self.lakehouse.storage, CAMPAIGN, entry)

    def entries(self) -> list[str]:
        return [entry.kind for entry in journal.entries(self.lakehouse.storage, CAMPAIGN)]

    def start(self, *, daemon: bool = False) -> None:
        self.enter("started", daemon=daemon)
        self.enter("step", CampaignStep.ANNOUNCE)

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
        with suppress(Died):
            self.lakehouse.publish_request(request)
        self.lakehouse.crash_at = None

    def die_in_rollback(self, what: str = PLAN.id) -> None:
        """Killed inside its publication."""
        with self.dying(CrashPoint.PREPARED), pytest.raises(Died):
            self.backfill("rollback", what, "--yes")

    def cannot_be_written(self) -> None:
        """An engine has given the table a feature that keeps everybody else out: what is begun cannot be ended."""
        demand_feature(self.lakehouse.storage, TABLE, "rowTracking")

    @contextmanager
    def for_once(self) -> Iterator[None]:
        """What the block does is forgotten."""
        home = self.backfill.home
        kept = home.with_name("kept")
        shutil.copytree(home, kept)
        yield
        shutil.rmtree(home)
        kept.rename(home)

    def undo(self) -> str:
        return str(self.backfill.json("rollback", PLAN.id, "--yes")["publication"])

    def undo_of(self, publication: str) -> str:
        self.backfill("rollback", publication, "--yes")
        return self.newest()

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

    def newest(self) -> str:
        """The last publication."""
        return str(self.backfill.json("history", "--limit", "1")["publications"][0]["publication"])

    def publications(self) -> list[str]:
        """Oldest first."""
        return list(dict.fromkeys(each["publication"] for each in self.backfill.json("history")["publications"]))[::-1]


def content_of(ids: Sequence[int]) -> DayContent:
    return DayContent(rows=len(ids), checksum=str(sum(ids)), code_version="v1", inputs="", metrics={"rows": len(ids)})
