"""A notice on its way, and how several become one message. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backfill_assets.lakehouse.records import Notice
from backfill_assets.notice_routes import SEVERITIES, Severity
from backfill_assets.publish.endings import Told
from backfill_assets.text import format_count


@dataclass(frozen=True)
class DueNotice:
    """A notice to be delivered. ``key`` is the same at every attempt."""

    key: str
    notice: Notice
    with_publication: bool = True
    """False for one that was announced on its own; ``key`` is then not the name of a publication."""
    recipients: tuple[str, ...] = ()
    """For whom it is, as the plan of its campaign says."""
    damage: str = ""
    """Why it cannot be sent as it is kept; empty for all others."""
    together: tuple[DueNotice, ...] = ()
    """The notices that go as this one message; empty for a message of one."""
    before: Told | None = None
    """What the place that gets it was told of its incident before; None for the first, and where it is not known."""

    @property
    def parts(self) -> tuple[DueNotice, ...]:
        return self.together or (self,)

    @property
    def about(self) -> str:
        """What it is grouped by; empty for one that goes alone."""
        return self.notice.dataset or self.notice.incident

    @property
    def firsts(self) -> tuple[str, ...]:
        """The keys of the messages by which its incidents were first told there."""
        found = (each.before.message for each in self.parts if each.before)
        return tuple(dict.fromkeys(key for key in found if key and key != self.key))


def in_one_message(dues: Sequence[DueNotice]) -> DueNotice:
    """Several as one, what is over last: the time at which a notice was announced is that of a file.

    It is as urgent as the most urgent of what is not over; where all is over, so is the message.
    """
    first = dues[0]
    if len(dues) == 1:
        return first
    still = [each.notice.severity for each in dues if not each.notice.resolved]
    severity: Severity = max(still, key=SEVERITIES.index, default="info")
    over = len(dues) - len(still)
    title = f"{format_count(len(dues), 'notice')} about {first.about}{f', {over} over' if over and still else ''}"
    notice = Notice(title=title, severity=severity, dataset=first.notice.dataset, resolved=not still)
    return DueNotice(first.key, notice, together=tuple(sorted(dues, key=lambda due: due.notice.resolved)))
