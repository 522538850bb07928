"""What is wrong with a day: one word for the cause, and what helps. Pure: the first case that fits counts.

Whoever looks at a day names the causes that something speaks for, each with its words: the logs, a watchdog, a gate, a
person's rollback. :data:`CASES` says which of them counts. All that is shown of a day goes by it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.notice_routes import Severity


class Action(enum.StrEnum):
    """What follows from a diagnosis."""

    REBUILD = "rebuild"
    RESTORE = "restore"
    """Raw is never computed again: its rows are read once more from the landed files, and must be the same ones."""
    WAIT = "wait"
    ASK = "a person"


class Cause(enum.StrEnum):
    """Why a day is wrong, stale or not there, gravest first: one word, wherever it is shown. A fresh day has none.

    The last ones are why a plan or a run builds a day all the same.
    """

    UNREADABLE = "table cannot be read"
    AUTOMATION = "automation fails"
    LOST_RAW = "raw lost files"
    FOREIGN_RAW = "foreign write to raw"
    INCOMPLETE = "delivery incomplete"
    OVERDUE = "delivery overdue"
    DRIFT = "fields changed"
    UNUSUAL = "unusual figures"
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
    """It was taken over with its table, and a person asks for this very day."""
    ASKED_FOR = "asked for"

    @classmethod
    def _missing_(cls, value: object) -> Cause | None:
        """Incidents that were kept by an earlier release have the words of then."""
        return _OF_THEN.get(value)


_OF_THEN: Mapping[object, Cause] = {
    "held back by gates": Cause.HELD_BACK,
    "input rebuilt": Cause.INPUT,
    "never built": Cause.MISSING,
}
INPUT_CHANGED = frozenset({Cause.TOO_LATE, Cause.CORRECTED, Cause.LATE, Cause.REFERENCE, Cause.INPUT})
"""What the day was built from is another thing now."""
OTHER_CODE = frozenset({Cause.GONE_VERSION, Cause.CODE_CHANGED})
"""It was built by another version than counts now; of raw: its rows would belong to other days."""
STALE = INPUT_CHANGED | OTHER_CODE
"""The day is as it was published, and would be built otherwise now."""
FOREIGN = frozenset({Cause.FOREIGN_RAW, Cause.FOREIGN_WRITE})
FRESH = "fresh"
_GRAVITY = {cause: place for place, cause in enumerate(Cause)}


def in_a_word(cause: Cause | None) -> str:
    """The status of a day: ``fresh``, ``missing``, ``stale: late rows``, ``foreign write``."""
    if cause is None:
        return FRESH
    return f"stale: {cause.value}" if cause in STALE else cause.value


def gravest(causes: Iterable[Cause | None]) -> Cause | None:
    """The gravest of several causes; None if there is none."""
    return min(filter(None, causes), key=_GRAVITY.__getitem__, default=None)


Signs = Mapping[Cause, str]
"""The causes that something speaks for, each with what was seen; empty where the cause says all of it."""


@dataclass(frozen=True)
class Case:
    """A cause, what helps, and how sure that is."""

    cause: Cause
    helps: Action
    confidence: Decimal
    known_by: str
    severity: Severity = "warning"
    beside: Cause | None = None
    """It only is the case where something speaks for this, too."""

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
_NO_REPAIR = {
    Cause.ROLLED_BACK: "a person has rolled it back, and a rebuild would end that",
    Cause.GONE_VERSION: "nothing that is declared makes it again as it was",
    Cause.EDITED_LOGIC: "its version was edited, and no repair builds with it",
}
"""A day that is damaged says so: these say what helps."""
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
    """The cause, what helps, how sure it is (a share of 1), and in the words of what was seen."""

    cause: Cause
    helps: Action
    confidence: Decimal
    severity: Severity
    words: str
    beside: Cause | None = None
    """What else speaks about it, and changes what helps."""

    @property
    def no_version(self) -> bool:
        """Is the logic not there any more that made the day?"""
        return Cause.GONE_VERSION in (self.cause, self.beside)


def first_case(signs: Signs) -> Case | None:
    """The first of :data:`CASES` that fits; None where nothing speaks for any."""
    return next((each for each in CASES if each.fits(signs)), None) if signs else None


def cause_of(signs: Iterable[Cause]) -> Cause | None:
    """The cause that counts of those that something speaks for; None without any."""
    case = first_case(dict.fromkeys(signs, ""))
    return case.cause if case else None


def diagnose(signs: Signs, least: Decimal = Decimal(0)) -> Diagnosis:
    """A person decides where the first case that fits is less sure than ``least``.

    Raises ``LookupError`` where nothing is wrong.
    """
    case = first_case(signs)
    if case is None:
        raise LookupError("Nothing of this is a sign.")
    helps = case.helps if case.confidence >= least else Action.ASK
    return Diagnosis(case.cause, helps, case.confidence, case.severity, signs[case.cause] or case.known_by, case.beside)
