"""The named points of the protocol at which a process may die or be overtaken."""

from __future__ import annotations

import enum
from collections.abc import Callable

FENCED, COMMITTED, RESTORED = 0, 1, 2


class CrashPoint(enum.StrEnum):
    LOG_READ = "log read"
    TABLES_READ = "tables read"
    PREPARED = "prepared"
    TABLE_LOADED = "table loaded"
    TABLE_COMMITTED = "table committed"
    ABORT_DECIDED = "abort decided"
    FENCED = "fenced"
    RESTORED = "restored"
    CLOSING = "closing"
    CLOSED = "closed"
    RECLAIM_INTENDED = "reclaim intended"
    RECLAIM_DELETED = "reclaim deleted"
    NOTICE_READ = "notice read"
    NOTICE_SENT = "notice sent"
    NOTICE_MARKED = "notice marked"


Reached = Callable[[CrashPoint, str], None]


def nowhere(step: CrashPoint, about: str) -> None:
    pass
