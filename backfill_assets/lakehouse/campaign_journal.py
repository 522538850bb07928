"""A campaign's only state: numbered entries, each written once."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationInfo, field_serializer, field_validator

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse import campaign_reports as reports
from backfill_assets.lakehouse.campaign_reports import Report
from backfill_assets.lakehouse.document import Documents, Series
from backfill_assets.lakehouse.records import Record
from backfill_assets.lakehouse.storage import Storage, StoredFile
from backfill_assets.lakehouse.timelines import CAMPAIGN

_CAMPAIGNS = "_campaigns"
Kind = Literal[
    "started",
    "resumed",
    "wave",
    "step",
    "stopped",
    "approved",
    "withdrawn",
    "rolled back",
    "restored",
]
"""``withdrawn``: an approval no longer covers what would be published; ``report`` says what another one is for.

Only older journals have the last two: the log has undos now.
"""
R = TypeVar("R", bound=Report)


class Spent(Record):
    seconds: float
    spark_start: float = 0.0
    size: int | None = None


class JournalEntry(Record):
    kind: Kind
    at: datetime
    by: str = ""
    step: str = ""
    """The step done, under way at a stop, or begun with again."""
    wave: int = -1
    reason: str = ""
    report: Report = Field(default=Report(), validate_default=True)
    """The type belongs to the kind, or to the step."""
    spent: Spent | None = None
    log: int = -1
    """The newest log entry known when this was written."""
    again: bool = False
    """Whether what was undone is staged again from its beginning."""

    @field_validator("report", mode="before")
    @classmethod
    def _typed(cls, value: object, entry: ValidationInfo) -> Report:
        if isinstance(value, Report) and value != Report():
            return value
        said = value.as_json() if isinstance(value, Report) else value
        return _type_of(entry.data.get("kind", ""), entry.data.get("step", "")).model_validate(said)

    @field_serializer("report")
    def _as_json(self, report: Report) -> dict[str, Any]:
        return report.as_json()

    @property
    def begins(self) -> bool:
        return self.kind in ("started", "resumed")

    @property
    def gives_up(self) -> bool:
        return self.kind == "stopped" and self.reported(reports.StopReport).abandoned

    @property
    def ends_campaign(self) -> bool:
        """Only a new start, or an undo of an undo, comes after it."""
        return self.gives_up or (self.kind == "step" and self.step == CampaignStep.DECOMMISSION)

    def tells_of(self, publication: str) -> bool:
        """Older entries name an undo only in their reason."""
        named = self.reported(reports.PublicationReport).publication
        return publication in (named, self.reason.removeprefix("by "))

    def reported(self, kind: type[R]) -> R:
        """The report of this ``kind``, else an empty one."""
        return self.report if isinstance(self.report, kind) else kind()


def write(storage: Storage, campaign: str, entry: JournalEntry) -> int:
    if not campaign.startswith(CAMPAIGN) or "/" in campaign:
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    return _journal(storage, campaign).append(entry)


def entries(storage: Storage, campaign: str) -> list[JournalEntry]:
    """Oldest first. Raises :class:`LakehouseUnusable` for an unreadable entry."""
    return list(numbered_entries(storage, campaign, {}).values())


def numbered_entries(storage: Storage, campaign: str, known: Mapping[int, JournalEntry]) -> dict[int, JournalEntry]:
    """Oldest first. Entries never change: ``known`` ones are not read."""
    journal = _journal(storage, campaign)
    return {number: known.get(number) or journal.at(number) for number in journal.numbers()}


def newest_until(storage: Storage, campaign: str, decides: Callable[[JournalEntry], bool]) -> list[JournalEntry | None]:
    """Newest first, to the first one that ``decides``; unreadable ones are None."""
    journal = _journal(storage, campaign)
    found: list[JournalEntry | None] = []
    for number in reversed(journal.numbers()):
        try:
            found.append(entry := journal.at(number))
        except LakehouseUnusable:
            found.append(None)
        else:
            if decides(entry):
                break
    return found


def first_written(storage: Storage, campaign: str) -> datetime:
    first = min(file.modified_ms for file in _journal(storage, campaign).files().values())
    return datetime.fromtimestamp(first // 1000, UTC)


def newest_entries(storage: Storage) -> dict[str, JournalEntry | None]:
    """Reads only the last file of each campaign; None if unreadable."""
    last = {campaign: max(files) for campaign, files in _files(storage).items()}
    names = sorted(last)

    def read(name: str) -> JournalEntry | None:
        try:
            return _journal(storage, name).at(last[name])
        except LakehouseUnusable:
            return None

    return dict(zip(names, storage.each(read, names), strict=True))


def newest(storage: Storage, most: int) -> list[list[JournalEntry]]:
    newest = {campaign: max(file.modified_ms for file in files.values()) for campaign, files in _files(storage).items()}
    found = []
    for campaign in sorted(newest, key=lambda name: (-newest[name], name))[:most]:
        with suppress(LakehouseUnusable):
            found.append(entries(storage, campaign))
    return found


def _files(storage: Storage) -> dict[str, dict[int, StoredFile]]:
    found: dict[str, dict[int, StoredFile]] = {}
    for name, file in Documents(storage, _CAMPAIGNS, JournalEntry).files(recursive=True).items():
        campaign, _, number = name.partition("/")
        if campaign.startswith(CAMPAIGN) and number.isdigit():
            found.setdefault(campaign, {})[int(number)] = file
    return found


def set_damaged_aside(storage: Storage, campaign: str, begun: JournalEntry) -> None:
    """Renames unreadable entries to ``.damaged``; ``begun`` replaces the first."""
    journal = _journal(storage, campaign)
    for number in journal.numbers():
        path = journal.path_of(number)
        try:
            journal.at(number)
        except LakehouseUnusable:
            storage.replace_bytes(f"{path}.damaged", storage.read_bytes(path))
            if number == 0:
                journal.rewrite(number, begun)
            else:
                storage.delete(path)


def _journal(storage: Storage, campaign: str) -> Series[JournalEntry]:
    mend = (
        "Use the version that wrote it, or put the file back from a backup. Or give the campaign up: "
        f"backfill timeline delete {plan_of(campaign)}"
    )
    return Series(storage, f"{_CAMPAIGNS}/{campaign}", JournalEntry, mend)


_PLAN, _CAMPAIGN = "plan-", "campaign-"


def campaign_of(plan: str) -> str:
    return _CAMPAIGN + plan.removeprefix(_PLAN)


def plan_of(campaign: str) -> str:
    return _PLAN + campaign.removeprefix(_CAMPAIGN)


def shown_name(place: str) -> str:
    return plan_of(place) if place.startswith(_CAMPAIGN) else place


class CampaignStep(enum.StrEnum):
    ANNOUNCE = "announced"
    VERIFY_SOURCE = "source_verified"
    PIN = "watermarks_pinned"
    SHADOW = "shadow_backfilled"
    VALIDATE = "validated"
    CUT_OVER = "cut_over"
    DOWNSTREAM = "downstream_rebuilt"
    NOTIFY = "completion_told"
    DECOMMISSION = "decommissioned"


STEPS = tuple(CampaignStep)

_BY_KIND: Mapping[str, type[Report]] = {
    "started": reports.BegunReport,
    "resumed": reports.BegunReport,
    "wave": reports.StagedReport,
    "stopped": reports.StopReport,
    "approved": reports.ApprovalReport,
    "withdrawn": reports.ComparedReport,
    "rolled back": reports.PublicationReport,
    "restored": reports.PublicationReport,
}
_BY_STEP: Mapping[str, type[Report]] = {
    CampaignStep.ANNOUNCE: reports.AnnouncedReport,
    CampaignStep.VERIFY_SOURCE: reports.SourceReport,
    CampaignStep.PIN: reports.PinnedReport,
    CampaignStep.SHADOW: reports.StagedReport,
    CampaignStep.VALIDATE: reports.ComparedReport,
    CampaignStep.CUT_OVER: reports.CutOverReport,
    CampaignStep.DOWNSTREAM: reports.DownstreamReport,
    CampaignStep.NOTIFY: reports.ToldReport,
    CampaignStep.DECOMMISSION: reports.ClosedReport,
}


def _type_of(kind: str, step: str) -> type[Report]:
    return _BY_STEP.get(step, Report) if kind == "step" else _BY_KIND.get(kind, Report)
