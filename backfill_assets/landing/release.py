"""A person lets a day be published although many rows were rejected: they stay in quarantine, the breach becomes a
warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import AuditRecord
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import RuleOutcome
from backfill_assets.model.rules import FewRejected

RELEASES = "_releases"
RELEASED = FewRejected.name_format


class Release(AuditRecord):
    table: str
    day: date
    by: str
    at: datetime
    reason: str

    def __str__(self) -> str:
        return f"released by {self.by} on {self.at:%Y-%m-%d}: {self.reason}"


def release_command(table: str, day: date, rules: Iterable[RuleOutcome]) -> str:
    """Empty unless only this gate holds the day back."""
    return f'backfill raw release {table} {day} "REASON"' if {rule.rule for rule in rules} == {RELEASED} else ""


def write_release(storage: Storage, release: Release) -> None:
    """Raises :class:`InvalidRequest` without a reason."""
    if not release.reason.strip():
        raise InvalidRequest("A release has a reason.", hint="Say why the day may do without these rows.")
    _releases(storage, release.table).replace(str(release.day), release)


def read_release(storage: Storage, table: str, day: date) -> Release | None:
    return _releases(storage, table).get(str(day))


def with_releases(
    storage: Storage, table: str, judged: Mapping[date, tuple[RuleOutcome, ...]]
) -> dict[date, tuple[RuleOutcome, ...]]:
    return {day: _of_day(storage, table, day, rules) for day, rules in judged.items()}


def _of_day(storage: Storage, table: str, day: date, rules: tuple[RuleOutcome, ...]) -> tuple[RuleOutcome, ...]:
    if not any(rule.rule == RELEASED and rule.holds_back for rule in rules):
        return rules
    release = read_release(storage, table, day)
    return rules if release is None else tuple(_warned(rule, release) for rule in rules)


def _warned(rule: RuleOutcome, release: Release) -> RuleOutcome:
    if rule.rule != RELEASED or rule.passed:
        return rule
    return replace(rule, severity="warning", details=(*rule.details, str(release)))


def _releases(storage: Storage, table: str) -> Documents[Release]:
    return Documents(storage, f"{RELEASES}/{table}", Release)
