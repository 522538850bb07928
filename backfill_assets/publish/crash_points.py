"""The named places of the protocol at which a process may die or be overtaken, and what it leaves in a table."""

from __future__ import annotations

import enum
from collections.abc import Callable

FENCED, COMMITTED, RESTORED = 0, 1, 2
"""The transaction versions that a publication leaves in a table."""


class CrashPoint(enum.StrEnum):
    """Every place at which a process may die or be overtaken; tests stop, interleave and kill at each."""

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
"""Called at every step, with the publication or intent that it is about."""


def nowhere(step: CrashPoint, about: str) -> None:
    """The :data:`Reached` of production: it does nothing."""
