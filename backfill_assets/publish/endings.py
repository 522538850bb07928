"""Who is told that an incident is over: each place that was told of its beginning, and no other. Pure.

If it ends before its beginning was sent (quiet hours, failures), neither is. What a dead process was sending may have
arrived: it is sent again under its key, then the end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.notice_routes import Severity


class Told(AuditRecord):
    keys: tuple[str, ...] = ()
    message: str = ""
    at: datetime | None = None
    severities: tuple[Severity, ...] = ()

    def and_now(self, key: str, severity: Severity, message: str, at: datetime) -> Told:
        keys = self.keys if key in self.keys else (*self.keys, key)
        others = tuple(each for each in self.severities if each != severity)
        return Told(keys=keys, message=self.message or message, at=self.at or at, severities=(*others, severity))


@dataclass(frozen=True)
class Ending:
    dropped: frozenset[str]
    is_told: bool


def ending(begun: Collection[str], told: Told | None) -> Ending:
    """``begun`` are the due beginnings that the place does not have."""
    sent = set(told.keys) if told else set[str]()
    return Ending(frozenset(begun) - sent, is_told=bool(sent))
