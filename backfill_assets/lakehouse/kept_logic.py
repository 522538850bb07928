from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage

_LOGIC, _SAME = "_logic", "_logic/_same_rows"
_MEND = "Remove it: it only says which function has changed. Runs go on without it."


class KeptLogic(AuditRecord):
    """Hashes of functions, classes and constants, by name."""

    step: str
    version: str
    parts: Mapping[str, str]


class SameRows(AuditRecord):
    step: str
    version: str
    published: str
    now: str
    days: tuple[str, ...]
    rows: int
    at: datetime
    by: str = ""

    def __str__(self) -> str:
        days = ", ".join(self.days)
        return f"{self.step}: {self.version} gives the same rows as it did ({self.rows:,} rows of {days})"


def keep_logic(storage: Storage, fingerprint: str, kept: KeptLogic) -> None:
    _logics(storage).create(fingerprint, kept)


def parts_of(storage: Storage, fingerprint: str) -> Mapping[str, str]:
    found = _logics(storage).get(fingerprint)
    return found.parts if found else {}


def keep_proof(storage: Storage, proof: SameRows) -> None:
    _proofs(storage).create(f"{proof.published}-{proof.now}", proof)


def same_as(storage: Storage, fingerprint: str) -> frozenset[str]:
    """Directly or through others; includes itself."""
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
