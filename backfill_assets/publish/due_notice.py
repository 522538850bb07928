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
    """``key`` is the same at every attempt."""

    key: str
    notice: Notice
    with_publication: bool = True
    recipients: tuple[str, ...] = ()
    damage: str = ""
    together: tuple[DueNotice, ...] = ()
    before: Told | None = None
    """None also if not known."""

    @property
    def parts(self) -> tuple[DueNotice, ...]:
        return self.together or (self,)

    @property
    def about(self) -> str:
        return self.notice.dataset or self.notice.incident

    @property
    def firsts(self) -> tuple[str, ...]:
        found = (each.before.message for each in self.parts if each.before)
        return tuple(dict.fromkeys(key for key in found if key and key != self.key))


def in_one_message(dues: Sequence[DueNotice]) -> DueNotice:
    """Ended incidents come last: announcement times are those of files, and do not order them. The message is as urgent
    as the most urgent part that is not over.
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
