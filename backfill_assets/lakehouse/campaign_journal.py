"""The journal of each campaign, entry by entry, in the lakehouse itself.

No process holds a campaign's state in memory: the daemon or the command that carries it on reads it from here. An
entry is written once, under the next free number, so two writers never overwrite each other.
"""

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
"""``withdrawn``: an approval does not cover what would be published any more; ``report`` is what another one is for.

The last two are what the log says of an undo, and of its undo: no journal has them since entries say what they know of
the log.
"""


class Spent(Record):
    """The seconds that a step or wave took in its process, by a clock that only goes forward."""

    seconds: float
    spark_start: float = 0.0
    """The part of them until Spark had started."""
    size: int | None = None
    """What the time grows with: rows, or days of tables, as the plan has them."""


class JournalEntry(Record):
    """One thing that happened. ``report`` is what the step reports, as JSON."""

    kind: Kind
    at: datetime
    by: str = ""
    step: str = ""
    """Of a step that is done, that was under way when the campaign stopped, or that it was begun again at."""
    wave: int = -1
    reason: str = ""
    report: Mapping[str, Any] = Field(default_factory=dict)
    spent: Spent | None = None
    log: int = -1
    """The newest entry of the publication log that was known when this was written."""
    again: bool = False
    """Whether what was undone is taken up again: it is staged from its beginning."""


def write(storage: Storage, campaign: str, entry: JournalEntry) -> int:
    """Append ``entry``; returns its number."""
    if not campaign.startswith(CAMPAIGN) or "/" in campaign:
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    return _journal(storage, campaign).append(entry)


def entries(storage: Storage, campaign: str) -> list[JournalEntry]:
    """Oldest first. Raises :class:`LakehouseUnusable` for one that cannot be read."""
    return list(numbered_entries(storage, campaign, {}).values())


def numbered_entries(storage: Storage, campaign: str, known: Mapping[int, JournalEntry]) -> dict[int, JournalEntry]:
    """Oldest first, by number. Those that are ``known`` are not read again: an entry never changes."""
    journal = _journal(storage, campaign)
    return {number: known.get(number) or journal.at(number) for number in journal.numbers()}


def newest_entries(storage: Storage) -> dict[str, JournalEntry | None]:
    """The last entry of every campaign that was ever started, by name; None for one that cannot be read.

    One listing, then one file of each is read: most campaigns are over, and this says so.
    """
    last = {campaign: max(files) for campaign, files in _files(storage).items()}
    names = sorted(last)

    def read(name: str) -> JournalEntry | None:
        try:
            return _journal(storage, name).at(last[name])
        except LakehouseUnusable:
            return None

    return dict(zip(names, storage.each(read, names), strict=True))


def newest(storage: Storage, most: int) -> list[list[JournalEntry]]:
    """The journals of the ``most`` campaigns that were written to last, without those that cannot be read.

    One listing, then only these are read.
    """
    newest = {campaign: max(file.modified_ms for file in files.values()) for campaign, files in _files(storage).items()}
    found = []
    for campaign in sorted(newest, key=lambda name: (-newest[name], name))[:most]:
        with suppress(LakehouseUnusable):
            found.append(entries(storage, campaign))
    return found


def _files(storage: Storage) -> dict[str, dict[int, StoredFile]]:
    """The entries of every campaign that was ever started, by one listing."""
    found: dict[str, dict[int, StoredFile]] = {}
    for name, file in Documents(storage, _CAMPAIGNS, JournalEntry).files(recursive=True).items():
        campaign, _, number = name.partition("/")
        if campaign.startswith(CAMPAIGN) and number.isdigit():
            found.setdefault(campaign, {})[int(number)] = file
    return found


def set_damaged_aside(storage: Storage, campaign: str, begun: JournalEntry) -> None:
    """Keep entries that cannot be read under another name, for a person: the others are the journal then.

    The first one says that the campaign has begun: ``begun`` takes its place.
    """
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
"""The key in the report of a wave or step: the ranges that are held back, by table."""
ABANDONED = "abandoned"
"""True in the report of a stop by people who gave the campaign up."""
HELPS = "helps"
"""In the report of a stop: what a person can do, if that is not to put a cause right and run the plan again."""
_PLAN, _CAMPAIGN = "plan-", "campaign-"


def campaign_of(plan: str) -> str:
    """The campaign that carries out ``plan``: the same hash."""
    return _CAMPAIGN + plan.removeprefix(_PLAN)


def plan_of(campaign: str) -> str:
    """The plan that ``campaign`` carries out."""
    return _PLAN + campaign.removeprefix(_CAMPAIGN)


def shown_name(place: str) -> str:
    """What people know a place by: a campaign by the id of its plan, another timeline by its name."""
    return plan_of(place) if place.startswith(_CAMPAIGN) else place


class CampaignStep(enum.StrEnum):
    """In this order. The value is what people read and click."""

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
