"""What is kept of the logic that days were published with: its parts by name, and which logics give the same rows.

A published day records a fingerprint alone. What is kept here explains it: which function is another one now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage

_LOGIC, _SAME = "_logic", "_logic/_same_rows"
_MEND = "Remove it: it only says which function has changed. Runs go on without it."


class KeptLogic(AuditRecord):
    """A hash of each part of a version's logic, by the name of the function, class or constant."""

    step: str
    version: str
    parts: Mapping[str, str]


class SameRows(AuditRecord):
    """The proof that two logics of a version give the same rows: days that were computed by both, and are equal."""

    step: str
    version: str
    published: str
    """The fingerprint of the logic that the days were published with."""
    now: str
    """That of the logic that has computed them again."""
    days: tuple[str, ...]
    """As ranges."""
    rows: int
    at: datetime
    by: str = ""

    def __str__(self) -> str:
        days = ", ".join(self.days)
        return f"{self.step}: {self.version} gives the same rows as it did ({self.rows:,} rows of {days})"


def keep_logic(storage: Storage, fingerprint: str, kept: KeptLogic) -> None:
    """Keep what a fingerprint stands for; once is enough."""
    _logics(storage).create(fingerprint, kept)


def parts_of(storage: Storage, fingerprint: str) -> Mapping[str, str]:
    """The parts of a logic that was published once; none where that is not known any more."""
    found = _logics(storage).get(fingerprint)
    return found.parts if found else {}


def keep_proof(storage: Storage, proof: SameRows) -> None:
    """The first proof of two logics stays."""
    _proofs(storage).create(f"{proof.published}-{proof.now}", proof)


def same_as(storage: Storage, fingerprint: str) -> frozenset[str]:
    """The logics that were proven to give the same rows as this one, directly or through others; and itself."""
    return _reached(fingerprint, ((each.published, each.now) for each in _proofs(storage).readable()))


def _reached(start: str, pairs: Iterable[tuple[str, str]]) -> frozenset[str]:
    beside: dict[str, set[str]] = {}
    for one, other in pairs:
        beside.setdefault(one, set()).add(other)
        beside.setdefault(other, set()).add(one)
    found, todo = {start}, [start]
    while todo:
        new = beside.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return frozenset(found)


def _logics(storage: Storage) -> Documents[KeptLogic]:
    return Documents(storage, _LOGIC, KeptLogic, _MEND)


def _proofs(storage: Storage) -> Documents[SameRows]:
    return Documents(storage, _SAME, SameRows, _MEND)
