"""Who is behind a process or a run, and how that is known."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WHO, _KNOWN_BY = "who", "known by"


@dataclass(frozen=True)
class Person:
    """``known_by`` says where ``name`` comes from; both are empty if it is unknown who it is."""

    name: str = ""
    known_by: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.known_by})" if self.name else "unknown"

    def __bool__(self) -> bool:
        return bool(self.name)

    def is_same_as(self, other: Person) -> bool:
        """Two spellings of a name that differ in case alone are one person: that refuses more."""
        return bool(self) and self.name.casefold() == other.name.casefold()

    def to_report(self) -> dict[str, str]:
        """As the journal of a campaign keeps it; nothing of an unknown person."""
        return {_WHO: self.name, _KNOWN_BY: self.known_by} if self else {}

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Person:
        return cls(str(report.get(_WHO, "")), str(report.get(_KNOWN_BY, "")))


UNKNOWN = Person()


def os_person() -> Person:
    """The user as whom the operating system runs this process. ``LOGNAME`` and ``USER`` are not asked: they can be set.

    Where there is no user database they are all there is, and ``known_by`` says so.
    """
    if sys.platform == "win32":
        return Person(getpass.getuser(), "environment variable, not verified")
    import pwd

    uid = os.getuid()
    try:
        return Person(pwd.getpwuid(uid).pw_name, f"OS user, uid {uid}")
    except KeyError:  # as in a container whose image has no such account
        return Person(f"uid-{uid}", f"OS user without an account, uid {uid}")
