"""The journal of each campaign, entry by entry, in the lakehouse itself.

No process holds a campaign's state in memory: the daemon or the command that carries it on reads it from here. An
entry is written once, under the next free number, so two writers never overwrite each other.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.records import Record
from backfill_assets.lakehouse.storage import Storage
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
"""``withdrawn``: an approval does not cover what would be published any more; ``report`` is what another one is for."""


class Spent(Record):
    """The seconds that a step or wave took in its process, by a clock that only goes forward."""

    seconds: float
    spark_start: float = 0.0
    """The part of them until Spark had started."""
    size: int | None = None
    """What the time grows with: rows, or days of tables, as the plan has them."""


class JournalEntry(Record):
    """One thing that happened. ``report`` is what the step reports, as JSON; its key is ``told``."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    kind: Kind
    at: datetime
    by: str = ""
    step: str = ""
    """Of a step that is done, that was under way when the campaign stopped, or that it was begun again at."""
    wave: int = -1
    reason: str = ""
    report: Mapping[str, Any] = Field(default_factory=dict, validation_alias="told", serialization_alias="told")
    spent: Spent | None = None


def write(storage: Storage, campaign: str, entry: JournalEntry) -> int:
    """Append ``entry``; returns its number.

    An object store may take an entry, lose the answer, and refuse it when it is sent again: then it is there.
    """
    if not campaign.startswith(CAMPAIGN) or "/" in campaign:
        raise InvalidRequest(f"{campaign!r} does not name a campaign.", hint=f"Its name begins with {CAMPAIGN}.")
    data = entry.model_dump_json().encode()
    numbers = itertools.count(len(_numbers(storage, campaign)))
    return next(number for number in numbers if _put(storage, _path(campaign, number), data))


def entries(storage: Storage, campaign: str) -> list[JournalEntry]:
    """Oldest first. Raises :class:`LakehouseUnusable` for one that cannot be read."""
    return list(numbered_entries(storage, campaign, {}).values())


def numbered_entries(storage: Storage, campaign: str, known: Mapping[int, JournalEntry]) -> dict[int, JournalEntry]:
    """Oldest first, by number. Those that are ``known`` are not read again: an entry never changes."""
    return {
        number: known.get(number) or _read(storage, _path(campaign, number)) for number in _numbers(storage, campaign)
    }


def campaigns(storage: Storage) -> list[str]:
    """Every campaign that was ever started."""
    return [name for name in storage.folders(_CAMPAIGNS) if name.startswith(CAMPAIGN)]


def newest_entries(storage: Storage) -> dict[str, JournalEntry | None]:
    """The last entry of every campaign that was ever started, by name; None for one that cannot be read.

    One listing, then one file of each is read: most campaigns are over, and this says so.
    """
    last: dict[str, int] = {}
    for file in storage.files(_CAMPAIGNS, recursive=True):
        _, name, entry = file.path.split("/", 2)
        number = entry.removesuffix(".json")
        if name.startswith(CAMPAIGN) and number.isdigit():
            last[name] = max(last.get(name, 0), int(number))
    names = sorted(last)

    def read(name: str) -> JournalEntry | None:
        try:
            return _read(storage, _path(name, last[name]))
        except LakehouseUnusable:
            return None

    return dict(zip(names, storage.each(read, names), strict=True))


def newest(storage: Storage, most: int) -> list[list[JournalEntry]]:
    """The journals of the ``most`` campaigns that were written to last, without those that cannot be read.

    One listing, then only these are read.
    """
    written: dict[str, int] = {}
    for file in storage.files(_CAMPAIGNS, recursive=True):
        name = file.path.split("/")[1]
        written[name] = max(written.get(name, 0), file.modified_ms)
    chosen = sorted(written, key=lambda name: (-written[name], name))[:most]
    found = []
    for name in chosen:
        if name.startswith(CAMPAIGN):
            with suppress(LakehouseUnusable):
                found.append(entries(storage, name))
    return found


def set_damaged_aside(storage: Storage, campaign: str, begun: JournalEntry) -> None:
    """Keep entries that cannot be read under another name, for a person: the others are the journal then.

    The first one says that the campaign has begun: ``begun`` takes its place.
    """
    for number in _numbers(storage, campaign):
        path = _path(campaign, number)
        try:
            _read(storage, path)
        except LakehouseUnusable:
            storage.replace_bytes(f"{path}.damaged", storage.read_bytes(path))
            if number == 0:
                storage.replace_bytes(path, begun.model_dump_json().encode())
            else:
                storage.delete(path)


def _read(storage: Storage, path: str) -> JournalEntry:
    try:
        return JournalEntry.model_validate_json(storage.read_bytes(path))
    except ValidationError as error:
        raise LakehouseUnusable(
            f"The journal of a campaign cannot be read: {storage.uri(path)} is of a later version, or damaged.",
            hint="Use the version that wrote it, or put the file back from a backup. Or give it up: "
            f"backfill timeline delete {plan_of(path.split('/')[1])}",
        ) from error


def _put(storage: Storage, path: str, data: bytes) -> bool:
    return storage.put_if_absent(path, data) or storage.read_bytes(path) == data


def _numbers(storage: Storage, campaign: str) -> list[int]:
    names = (file.path.rsplit("/", 1)[1].removesuffix(".json") for file in storage.files(f"{_CAMPAIGNS}/{campaign}"))
    return sorted(int(name) for name in names if name.isdigit())


def _path(campaign: str, number: int) -> str:
    return f"{_CAMPAIGNS}/{campaign}/{number:06d}.json"


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
