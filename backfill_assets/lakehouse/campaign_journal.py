"""The journal of each campaign: numbered entries, each written once. A campaign has no other state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
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

The last two stand in journals of before alone: the log says that a campaign was undone, or brought back.
"""


class Spent(Record):
    seconds: float
    spark_start: float = 0.0
    size: int | None = None


class JournalEntry(Record):
    kind: Kind
    at: datetime
    by: str = ""
    step: str = ""
    """The step that is done, that was under way at a stop, or at which the campaign begins again."""
    wave: int = -1
    reason: str = ""
    report: Mapping[str, Any] = Field(default_factory=dict)
    spent: Spent | None = None
    log: int = -1
    """The newest entry of the publication log that was known when this was written."""
    again: bool = False
    """Whether what was undone is taken up again: it is staged from its beginning."""


def write(storage: Storage, campaign: str, entry: JournalEntry) -> int:
    if not campaign.startswith(CAMPAIGN) or "/" in campaign:
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    return _journal(storage, campaign).append(entry)


def entries(storage: Storage, campaign: str) -> list[JournalEntry]:
    """Oldest first. Raises :class:`LakehouseUnusable` if an entry cannot be read."""
    return list(numbered_entries(storage, campaign, {}).values())


def numbered_entries(storage: Storage, campaign: str, known: Mapping[int, JournalEntry]) -> dict[int, JournalEntry]:
    """Oldest first. Entries never change: those ``known`` are not read again."""
    journal = _journal(storage, campaign)
    return {number: known.get(number) or journal.at(number) for number in journal.numbers()}


def newest_entries(storage: Storage) -> dict[str, JournalEntry | None]:
    """The entry is None if it cannot be read. Only the last file of each campaign is read: most campaigns are over."""
    last = {campaign: max(files) for campaign, files in _files(storage).items()}
    names = sorted(last)

    def read(name: str) -> JournalEntry | None:
        try:
            return _journal(storage, name).at(last[name])
        except LakehouseUnusable:
            return None

    return dict(zip(names, storage.each(read, names), strict=True))


def newest(storage: Storage, most: int) -> list[list[JournalEntry]]:
    """The ``most`` campaigns written last, without unreadable ones."""
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
    """Unreadable entries are renamed to ``.damaged``; ``begun`` replaces the first."""
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


HELD_BACK_DAYS = "held back days"
"""Report key of a wave or step: ranges by table."""
ABANDONED = "abandoned"
HELPS = "helps"
"""Report key of a stop: what to do, unless it is to repair the cause and run the plan again."""
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
