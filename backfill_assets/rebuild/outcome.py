"""What a build returns, and who builds."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from backfill_assets.errors import GateFailed
from backfill_assets.lakehouse.campaign_reports import ByPerson
from backfill_assets.lakehouse.records import DayState, Provenance
from backfill_assets.model.declaration import Metric, RuleOutcome
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import format_are, format_count

if TYPE_CHECKING:
    from backfill_assets.publish.closed_days import BookEntry
    from backfill_assets.rebuild.stage import StagedTableDay
    from backfill_assets.state.rolled_back import Undo


@dataclass(frozen=True)
class Person:
    """``known_by`` is the source of ``name``; empty if unknown."""

    name: str = ""
    known_by: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.known_by})" if self.name else "unknown"

    def __bool__(self) -> bool:
        return bool(self.name)

    def is_same_as(self, other: Person) -> bool:
        """Ignores case: a false match only refuses more."""
        return bool(self) and self.name.casefold() == other.name.casefold()

    @classmethod
    def of(cls, report: ByPerson) -> Person:
        return cls(report.who, report.known_by)


UNKNOWN = Person()


def os_person() -> Person:
    """The OS user of this process. ``LOGNAME`` and ``USER`` are ignored, because anybody can set them.

    Without a user database they are all there is, and ``known_by`` says so.
    """
    if sys.platform == "win32":
        return Person(getpass.getuser(), "environment variable, not verified")
    import pwd

    uid = os.getuid()
    try:
        return Person(pwd.getpwuid(uid).pw_name, f"OS user, uid {uid}")
    except KeyError:  # as in a container whose image has no such account
        return Person(f"uid-{uid}", f"OS user without an account, uid {uid}")


# ------------------------------------------------------------------ who builds

ADOPTED = "taken over from an earlier run"
STAGED_AGAIN = "moved meanwhile, staging again"
"""In progress reports; the lab counts reports that contain these."""
FLAGGED = "It is flagged incomplete"
"""Ends the progress report of a week or month that a range cuts."""


_MOST_CHECKS = 5
"""Limits the checks in the text of an error; Dagster's metadata and ``--json`` have all."""


@dataclass(frozen=True)
class RunInfo:
    """Recorded with each publication; part of no fingerprint."""

    run_id: str
    git_commit: str = ""
    launched_by: str = ""
    person: Person = UNKNOWN
    """Unknown for schedules, sensors, and runs without a user."""

    def provenance(self, timeline: str = "", *, campaign: str = "", reason: str = "") -> Provenance:
        return Provenance(
            run=self.run_id,
            launched_by=self.launched_by,
            git_commit=self.git_commit,
            campaign=campaign,
            timeline=timeline,
            reason=reason,
        )


@dataclass(frozen=True)
class BuiltDay:
    table: str
    day: date
    rows: int
    checksum: str
    publication: str
    table_version: int
    code_version: str
    reused: bool
    """Published earlier from the same inputs by the same version."""
    input_fingerprint: str
    inputs: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    rules: tuple[RuleOutcome, ...] = ()
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    """The day's share of the time to stage its chunk."""
    rolled_back_by: str = ""
    """The rollback that this build has published over."""
    held_by: Undo | None = None
    """The rollback that a repair has left it to, stale as it is."""
    closed_by: BookEntry | None = None
    """Somebody has closed it, and it stays as it is."""
    is_there: bool = True
    """False if that rollback has taken it away, or if it is closed and was never built."""
    verified: str = ""
    """``equal to a whole rebuild``, or how it differed."""

    @property
    def stays(self) -> Cause | None:
        """Why it was not built, stale as it is."""
        if self.closed_by is not None:
            return Cause.CLOSED
        return self.held_by.cause if self.held_by else None

    @classmethod
    def from_log(
        cls,
        state: DayState,
        versions: Mapping[str, int],
        inputs: Mapping[str, int],
        *,
        reused: bool,
        staged: StagedTableDay | None = None,
    ) -> BuiltDay:
        content = state.content
        return cls(
            table=state.table,
            day=state.day,
            rows=content.rows if content else 0,
            checksum=content.checksum if content else "0",
            publication=state.publication,
            table_version=versions.get(state.table, -1),
            code_version=content.code_version if content else "",
            reused=reused,
            input_fingerprint=content.input_fingerprint if content else "",
            inputs=inputs,
            metrics=dict(content.metrics) if content else {},
            rules=staged.rules if staged else (),
            bytes=sum(file.size for file in staged.files) if staged else 0,
            files=len(staged.files) if staged else 0,
            seconds=staged.seconds if staged else 0.0,
            is_there=content is not None,
        )


@dataclass(frozen=True)
class BuildResult:
    days: tuple[BuiltDay, ...]
    publications: tuple[str, ...] = ()
    appended_elsewhere: Mapping[str, tuple[date, ...]] = field(default_factory=dict)


class DaysFailed(GateFailed):
    """Staged days failed their gates. Nothing was published; good days stay staged."""

    def __init__(self, failed: Sequence[BuiltDay], staged: int) -> None:
        self.failed = tuple(failed)
        self.staged = staged
        super().__init__(_message(self.failed), hint=_hint(self.failed, staged))


def refuse_failed(staged: Mapping[date, Sequence[StagedTableDay]]) -> None:
    failed = [day for days in staged.values() for day in days if not day.passed]
    if failed:
        built = [_not_published(day) for day in failed]
        raise DaysFailed(built, staged=len(staged.keys() - {day.day for day in failed}))


def _not_published(staged: StagedTableDay) -> BuiltDay:
    state = DayState(staged.table, staged.day, "", -1, "", staged.content)
    return BuiltDay.from_log(state, {}, {}, reused=False, staged=staged)


def adopted_line(table: str, days: int) -> str:
    return f"{table}: {format_are(days, 'staged day')} {ADOPTED}"


def _message(failed: Sequence[BuiltDay]) -> str:
    days = sorted({day.day for day in failed})
    lines = [f"{failed[0].table}: {format_count(len(days), 'day')} did not pass the gates, nothing was published:"]
    for day in failed[:10]:
        broken = [rule for rule in day.rules if rule.holds_back]
        for r in broken:
            lines.append(f"  {day.table} {day.day} {r.rule}: {r.observed}, expected {r.expected}")
            lines += (f"    {line}" for line in r.details[:_MOST_CHECKS])
    return "\n".join(lines)


def _hint(failed: Sequence[BuiltDay], staged: int) -> str:
    steps = {rule.next_step for day in failed for rule in day.rules if rule.holds_back and rule.next_step}
    kept = f" {staged} staged days passed; the next run uses them without computing them again." if staged else ""
    return " ".join(sorted(steps)) + kept
