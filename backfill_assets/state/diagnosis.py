"""What is wrong with a day: one cause, and what helps. Pure.

Logs, watchdogs, gates and rollbacks give signs; the first of :data:`CASES` that fits counts everywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.notice_routes import Severity


class Action(enum.StrEnum):
    REBUILD = "rebuild"
    RESTORE = "restore"
    """Raw's rows are read again from landed files, and must be the same."""
    WAIT = "wait"
    ASK = "a person"


class Cause(enum.StrEnum):
    """Why a day is wrong, stale or missing, gravest first; the last ones say why a plan or run builds a day all the
    same.
    """

    UNREADABLE = "table cannot be read"
    AUTOMATION = "automation fails"
    LOST_RAW = "raw lost files"
    FOREIGN_RAW = "foreign write to raw"
    INCOMPLETE = "delivery incomplete"
    OVERDUE = "delivery overdue"
    DRIFT = "fields changed"
    UNUSUAL = "unusual figures"
    CLOSED = "closed"
    """Somebody has closed it: what came since waits."""
    ROLLED_BACK = "rolled back"
    UNDONE_WITH_RAW = "undone with rows of raw"
    GONE_VERSION = "version not declared"
    EDITED_LOGIC = "logic edited"
    HELD_BACK = "held back"
    LOST_FILES = "files lost"
    FOREIGN_WRITE = "foreign write"
    CONTENT = "content not as published"
    DISAGREES = "tables disagree"
    CODE_CHANGED = "code changed"
    TOO_LATE = "too late by declaration"
    CORRECTED = "rows corrected"
    LATE = "late rows"
    REFERENCE = "reference data changed"
    INPUT = "input changed"
    FAILED_RUN = "run failed"
    MISSING = "missing"
    SOURCE_CHANGED = "changed at the source"
    LANDED = "landed and not taken in"
    INPUT_REBUILT = "an input is rebuilt"
    ADOPTED = "adopted"
    """Adopted with its table, and a person asks for this very day."""
    ASKED_FOR = "asked for"

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        """Incidents of earlier releases have older words."""
        return _OF_THEN.get(value)


_OF_THEN: Mapping[object, Cause] = {
    "held back by gates": Cause.HELD_BACK,
    "input rebuilt": Cause.INPUT,
    "never built": Cause.MISSING,
}
INPUT_CHANGED = frozenset({Cause.TOO_LATE, Cause.CORRECTED, Cause.LATE, Cause.REFERENCE, Cause.INPUT})
OTHER_CODE = frozenset({Cause.GONE_VERSION, Cause.CODE_CHANGED})
"""Built by another version than counts now; for raw: its rows would belong to other days."""
STALE = INPUT_CHANGED | OTHER_CODE
FOREIGN = frozenset({Cause.FOREIGN_RAW, Cause.FOREIGN_WRITE})
FRESH = "fresh"
_GRAVITY = {cause: place for place, cause in enumerate(Cause)}


def in_a_word(cause: Cause | None) -> str:
    """``fresh``, ``missing``, ``stale: late rows``, ``foreign write``."""
    if cause is None:
        return FRESH
    return f"stale: {cause.value}" if cause in STALE else cause.value


def gravest(causes: Iterable[Cause | None]) -> Cause | None:
    return min(filter(None, causes), key=_GRAVITY.__getitem__, default=None)


Signs = Mapping[Cause, str]
"""What was seen, by cause; empty if the cause says it all."""


@dataclass(frozen=True)
class Case:
    cause: Cause
    helps: Action
    confidence: Decimal
    known_by: str
    severity: Severity = "warning"
    beside: Cause | None = None

    def fits(self, signs: Signs) -> bool:
        return self.cause in signs and (self.beside is None or self.beside in signs)


_REBUILD, _ASK, _WAIT = Action.REBUILD, Action.ASK, Action.WAIT


def _case(
    cause: Cause,
    helps: Action,
    percent: int,
    known_by: str,
    severity: Severity = "warning",
    *,
    beside: Cause | None = None,
) -> Case:
    return Case(cause, helps, Decimal(percent) / 100, known_by, severity, beside)


_SAME_ROWS = "its files, rows and inputs are as published, and its sums disagree: a rebuild makes the same rows"
_HELD = "a person has rolled it back, and nothing that it is made of has changed since"
_UNDONE_WITH_RAW = "a person has undone it and withdrawn rows of raw, and its inputs have changed since"
_DAMAGE = (
    (Cause.LOST_FILES, 100, "files are gone or damaged"),
    (Cause.FOREIGN_WRITE, 100, "main holds files that no publication named"),
    (Cause.CONTENT, 95, "its rows are not those of its publication"),
)
_CLOSED = "somebody has closed it, and what came since waits"
_NO_REPAIR = {
    Cause.CLOSED: "it is closed, and nothing is published to it until somebody reopens it",
    Cause.ROLLED_BACK: "a person has rolled it back, and a rebuild would end that",
    Cause.GONE_VERSION: "nothing that is declared makes it again as it was",
    Cause.EDITED_LOGIC: "its version was edited, and no repair builds with it",
}
"""A damaged day says so; these signs say what helps."""
CASES: tuple[Case, ...] = (
    _case(Cause.UNREADABLE, _ASK, 100, "its Delta log cannot be read", "critical"),
    _case(Cause.AUTOMATION, _ASK, 100, "a sensor failed twice in a row", "critical"),
    _case(Cause.LOST_RAW, Action.RESTORE, 95, "raw lost files", "critical"),
    _case(Cause.FOREIGN_RAW, _ASK, 100, "raw is not what was published", "critical"),
    _case(Cause.INCOMPLETE, _WAIT, 90, "`delivered` or `as_sent` fails", "critical"),
    _case(Cause.OVERDUE, _WAIT, 60, "`delivered_as_usual` fails"),
    _case(Cause.DRIFT, _ASK, 90, "the check `as_declared` fails"),
    _case(Cause.UNUSUAL, _ASK, 60, "`as_usual` fails, and of no table that it is made of"),
    _case(Cause.UNDONE_WITH_RAW, _ASK, 100, _UNDONE_WITH_RAW),
    *(
        _case(cause, _ASK, percent, f"{known_by}; {why}", beside=beside)
        for beside, why in _NO_REPAIR.items()
        for cause, percent, known_by in _DAMAGE
    ),
    _case(Cause.CLOSED, _ASK, 100, _CLOSED, "info"),
    _case(Cause.ROLLED_BACK, _ASK, 100, _HELD),
    _case(Cause.GONE_VERSION, _ASK, 100, "its version is not declared any more"),
    _case(Cause.EDITED_LOGIC, _ASK, 100, "its version was edited since it published days"),
    _case(Cause.HELD_BACK, _ASK, 100, "its gates held it back, built from just these inputs"),
    *(_case(cause, _REBUILD, percent, known_by) for cause, percent, known_by in _DAMAGE),
    _case(Cause.CODE_CHANGED, _ASK, 100, "its version is not the current one", "info"),
    _case(Cause.TOO_LATE, _ASK, 100, "its rows are later than its dataset takes by itself"),
    _case(Cause.CORRECTED, _REBUILD, 95, "raw gained rows and lost others", "info"),
    _case(Cause.LATE, _REBUILD, 95, "raw gained rows since", "info"),
    _case(Cause.REFERENCE, _REBUILD, 95, "what it looks back at was provisional", "info"),
    _case(Cause.INPUT, _REBUILD, 95, "an input was published again since", "info"),
    _case(Cause.DISAGREES, _ASK, 40, _SAME_ROWS),
    _case(Cause.FAILED_RUN, _REBUILD, 70, "its run ended before its gates"),
    _case(Cause.MISSING, _REBUILD, 90, "it can be built and never was", "info"),
)


@dataclass(frozen=True)
class Diagnosis:
    """``confidence`` is a share of 1."""

    cause: Cause
    helps: Action
    confidence: Decimal
    severity: Severity
    words: str
    beside: Cause | None = None

    @property
    def no_version(self) -> bool:
        return Cause.GONE_VERSION in (self.cause, self.beside)


def first_case(signs: Signs) -> Case | None:
    return next((each for each in CASES if each.fits(signs)), None) if signs else None


def cause_of(signs: Iterable[Cause]) -> Cause | None:
    case = first_case(dict.fromkeys(signs, ""))
    return case.cause if case else None


def diagnose(signs: Signs, least: Decimal = Decimal(0)) -> Diagnosis:
    """A person decides if the case is less sure than ``least``. Raises ``LookupError`` without a sign."""
    case = first_case(signs)
    if case is None:
        raise LookupError("Nothing of this is a sign.")
    helps = case.helps if case.confidence >= least else Action.ASK
    return Diagnosis(case.cause, helps, case.confidence, case.severity, signs[case.cause] or case.known_by, case.beside)
