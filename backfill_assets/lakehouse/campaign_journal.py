"""What has happened to each campaign, entry by entry, in the lakehouse itself.

Nobody holds a campaign's state in memory: whoever carries it on, a daemon or a person, reads it from here. An entry is
written once, under the next free number, so two writers never overwrite each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.publication import Record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN

_CAMPAIGNS = "_campaigns"
Kind = Literal["started", "resumed", "wave", "step", "stopped", "approved", "rolled back", "restored"]


class JournalEntry(Record):
    """One thing that happened. ``told`` is what the step reports, as JSON."""

    kind: Kind
    at: datetime
    by: str = ""
    step: str = ""
    """Of a step that is done, that was under way when the campaign stopped, or that it was begun again at."""
    wave: int = -1
    reason: str = ""
    told: Mapping[str, Any] = Field(default_factory=dict)


def write(storage: Storage, campaign: str, entry: JournalEntry) -> int:
    """Append ``entry``; returns its number."""
    if not campaign.startswith(CAMPAIGN) or "/" in campaign:
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    number = len(_numbers(storage, campaign))
    while not storage.put_if_absent(_path(campaign, number), entry.model_dump_json().encode()):
        number += 1
    return number


def entries(storage: Storage, campaign: str) -> list[JournalEntry]:
    """Oldest first."""
    return [
        JournalEntry.model_validate_json(storage.read_bytes(_path(campaign, number)))
        for number in _numbers(storage, campaign)
    ]


def campaigns(storage: Storage) -> list[str]:
    """Every campaign that was ever started."""
    return [name for name in storage.folders(_CAMPAIGNS) if name.startswith(CAMPAIGN)]


def _numbers(storage: Storage, campaign: str) -> list[int]:
    names = (file.path.rsplit("/", 1)[1].removesuffix(".json") for file in storage.files(f"{_CAMPAIGNS}/{campaign}"))
    return sorted(int(name) for name in names if name.isdigit())


def _path(campaign: str, number: int) -> str:
    return f"{_CAMPAIGNS}/{campaign}/{number:06d}.json"
