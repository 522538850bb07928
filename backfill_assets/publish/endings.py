"""Who is told that an incident is over: each place that was told that it began, and no other. Pure.

Quiet hours, a filter or a place that was left alone may have withheld what began. Where it is over before it was sent,
neither is. What a process was just sending when it died may have arrived: that is sent again under its key, then the
end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.notice_routes import Severity


class Told(AuditRecord):
    """What a place was told of one incident."""

    keys: tuple[str, ...] = ()
    """The notices that were sent, or are being sent; none where the incident was over before any was."""
    message: str = ""
    """The key of the message that had the first of them."""
    at: datetime | None = None
    """When that was sent."""
    severities: tuple[Severity, ...] = ()
    """How urgent it was told to be, the newest last."""

    def and_now(self, key: str, severity: Severity, message: str, at: datetime) -> Told:
        """With a notice that is sent to the place now."""
        keys = self.keys if key in self.keys else (*self.keys, key)
        others = tuple(each for each in self.severities if each != severity)
        return Told(keys=keys, message=self.message or message, at=self.at or at, severities=(*others, severity))


@dataclass(frozen=True)
class Ending:
    """What becomes of an incident that is over, at one place."""

    dropped: frozenset[str]
    """The notices of what began that are not sent there any more."""
    is_told: bool
    """Whether it is told there that it is over."""


def ending(begun: Collection[str], told: Told | None) -> Ending:
    """``begun`` are the due notices of what began that the place does not have, ``told`` what it was told before."""
    sent = set(told.keys) if told else set[str]()
    return Ending(frozenset(begun) - sent, is_told=bool(sent))
