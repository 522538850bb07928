"""What the publication log says of a campaign, and its course by journal and log together.

Each journal entry records the newest log entry known then, which puts both in one order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from backfill_assets.campaign.course import CampaignState, in_order, state_of
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.lakehouse.campaign_reports import CutOverReport, PublicationReport
from backfill_assets.lakehouse.records import Prepared, Publication
from backfill_assets.plan.records import as_ranges
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import Closed, closed_entries


@dataclass(frozen=True)
class CampaignPublication:
    prepared: Prepared
    at: datetime
    closed: int

    @property
    def made(self) -> Publication:
        return self.prepared.publication

    @property
    def id(self) -> str:
        return self.made.id

    @property
    def undoes(self) -> bool:
        return self.made.provenance.withdraws

    @property
    def restores(self) -> bool:
        return bool(self.made.provenance.undoes) and not self.undoes

    @property
    def cut_over(self) -> str:
        """The original cut-over, through any chain of undos."""
        return self.made.provenance.first_undone or self.id

    @property
    def entry(self) -> JournalEntry:
        kind: journal.Kind = "rolled back" if self.undoes else "restored" if self.restores else "step"
        report = PublicationReport(publication=self.id)
        if kind == "step":
            days = {each.table: as_ranges(day.day for day in each.days) for each in self.made.tables}
            report = CutOverReport(publication=self.id, days=days)
        return JournalEntry(
            kind=kind,
            at=self.at,
            by=self.made.provenance.launched_by,
            step=CampaignStep.CUT_OVER if kind == "step" else "",
            reason="" if kind == "step" else f"by {self.id}",
            report=report,
            log=self.closed,
        )


def published_by(
    log: PublicationLog, campaign: str, known: Sequence[CampaignPublication] = ()
) -> list[CampaignPublication]:
    before = {each.id: each for each in known}
    closed = reversed(list(closed_entries(log.files(), campaign=campaign, outcome="done")))
    found = (before.get(each.publication) or _read(log, each) for each in closed)
    return [each for each in found if each is not None]


def _read(log: PublicationLog, entry: Closed) -> CampaignPublication | None:
    found = log.find_prepared(entry.publication)
    return CampaignPublication(*found, entry.sequence) if found else None


def course_of(log: PublicationLog, campaign: str) -> CampaignState:
    return state_of(campaign, all_entries(journal.entries(log.storage, campaign), published_by(log, campaign)))


def all_entries(entries: Sequence[JournalEntry], published: Sequence[CampaignPublication]) -> list[JournalEntry]:
    begun = [JournalEntry(kind="started", at=published[0].at)] if published and not entries else entries
    return in_order(begun, [each.entry for each in published])


@dataclass
class Ledger:
    """Reads each entry once, and looks for more on each question: other processes write too."""

    log: PublicationLog
    campaign: str
    _known: Mapping[int, JournalEntry] = field(init=False, default_factory=dict)
    _known_log: int = field(init=False, default=-1)
    _published: Sequence[CampaignPublication] = field(init=False, default=())

    def entries(self) -> list[JournalEntry]:
        self._known = journal.numbered_entries(self.log.storage, self.campaign, self._known)
        if (newest := self.log.head().version) != self._known_log:
            self._published = published_by(self.log, self.campaign, self._published)
            self._known_log = max([newest, *(each.closed for each in self._published)])
        return all_entries(list(self._known.values()), self._published)

    def state(self) -> CampaignState:
        return state_of(self.campaign, self.entries())

    def write(self, entry: JournalEntry, by: str) -> None:
        """``entry`` says what was known of the log when it was decided on."""
        known = {"by": by, "log": self._known_log}
        journal.write(self.log.storage, self.campaign, entry.model_copy(update=known))
