"""Why a day is wrong, how sure that is, and whether building it again helps. Pure: the first case that fits counts."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from backfill_assets.notice_routes import Severity
from backfill_assets.quality.watchdogs import CONTENT, FILES


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
    TOO_LATE = "too late by declaration"
    LOST_FILES = "files lost"
    FOREIGN_WRITE = "foreign write"
    CONTENT = "content not as published"
    DISAGREES = "tables disagree"
    CODE_CHANGED = "code changed"
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
STALE = frozenset({Cause.CODE_CHANGED, Cause.CORRECTED, Cause.LATE, Cause.REFERENCE, Cause.INPUT})
"""The day is as it was published, and would be built otherwise now."""
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


_NUMBER = re.compile(r"(?<![\w.,])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\w)")


@dataclass(frozen=True)
class Disagreement:
    """A rule of the watchdog that failed on a published day."""

    rule: str
    expected: str
    observed: str

    def __str__(self) -> str:
        """With by how much, where each side names one number."""
        by = _apart(self.expected, self.observed)
        return f"{self.rule}: expected {self.expected}, observed {self.observed}{f' ({by})' if by else ''}"


def _apart(expected: str, observed: str) -> str:
    sides = [_NUMBER.findall(text) for text in (observed, expected)]
    if any(len(numbers) != 1 for numbers in sides):
        return ""
    left, right = (Decimal(numbers[0].replace(",", "")) for numbers in sides)
    return f"{left - right:+,}"


@dataclass(frozen=True)
class Symptoms:
    """What is seen of one day of one step. Texts are empty where nothing is."""

    unreadable: str = ""
    """Why the log of its table cannot be read."""
    failing: str = ""
    """With what a sensor failed twice in a row."""
    is_raw: bool = False
    foreign: bool = False
    """Main holds files that no publication named."""
    broken: Collection[str] = ()
    """The rules of the watchdog that failed on what is published now."""
    disagreements: str = ""
    """Of sums, what they are and what they should be."""
    lost: bool = False
    """Files of it are gone or cannot be read."""
    late: bool = False
    """Raw gained rows since."""
    corrected: bool = False
    """And some of raw's rows were taken back."""
    reference: bool = False
    """Data changed that the day looks back at."""
    changed: bool = False
    """Any input is another one than the day was built from."""
    missing: bool = False
    run_failed: bool = False
    """Its last run ended before its gates were judged."""
    gates: str = ""
    """What its gates said when it was built from just what there is now."""
    asks: str = ""
    """Why its dataset leaves these late rows to a person."""
    rolled_back: bool = False
    """A person has put it back, and none of its inputs has changed since."""
    undone_with_raw: bool = False
    """A person has put it back together with rows of raw that it was made of, and its inputs have changed since."""
    version_gone: bool = False
    adopted: bool = False
    """It came with its table: nothing here can make it again as it was."""
    edited: str = ""
    """What was edited of the version that a repair would build it with: days of both would have one name."""
    incomplete: str = ""
    """What the check of a delivery said: less came than was sent, or nothing by its time."""
    overdue: str = ""
    """What was said of a delivery that is usually there by now."""
    drifted: str = ""
    unusual: str = ""


@dataclass(frozen=True)
class Case:
    """A cause, what it is known by, and how sure that makes it."""

    cause: Cause
    fits: Callable[[Symptoms], bool]
    action: Action
    confidence: Decimal
    known_by: str
    severity: Severity = "warning"


_NOT_PUBLISHED = {FILES, CONTENT}
_REBUILD, _ASK = Action.REBUILD, Action.ASK


def _case(
    cause: Cause,
    action: Action,
    percent: int,
    fits: Callable[[Symptoms], bool],
    known_by: str,
    severity: Severity = "warning",
) -> Case:
    return Case(cause, fits, action, Decimal(percent) / 100, known_by, severity)


def _is_foreign_raw(seen: Symptoms) -> bool:
    return seen.is_raw and (seen.foreign or not _NOT_PUBLISHED.isdisjoint(seen.broken))


def _differs(seen: Symptoms) -> bool:
    return not _NOT_PUBLISHED.isdisjoint(seen.broken)


_ADOPTED = "it was adopted with its table, and nothing here can make it again as it was"
_SAME_ROWS = "its files, rows and inputs are as published, and its sums disagree: a rebuild makes the same rows"
_HELD = "a person has rolled it back, and nothing that it is made of has changed since"
_BESIDE_ROLLBACK = "; a person has rolled it back, and a rebuild would end that"
_UNDONE_WITH_RAW = "a person has undone it and withdrawn rows of raw, and its inputs have changed since"
CASES: tuple[Case, ...] = (
    _case(Cause.UNREADABLE, _ASK, 100, lambda s: bool(s.unreadable), "its Delta log cannot be read", "critical"),
    _case(Cause.AUTOMATION, _ASK, 100, lambda s: bool(s.failing), "a sensor failed twice in a row", "critical"),
    _case(Cause.LOST_RAW, Action.RESTORE, 95, lambda s: s.is_raw and s.lost, "raw lost files", "critical"),
    _case(Cause.FOREIGN_RAW, _ASK, 100, _is_foreign_raw, "raw is not what was published", "critical"),
    _case(
        Cause.INCOMPLETE, Action.WAIT, 90, lambda s: bool(s.incomplete), "`delivered` or `as_sent` fails", "critical"
    ),
    _case(Cause.OVERDUE, Action.WAIT, 60, lambda s: bool(s.overdue), "`delivered_as_usual` fails"),
    _case(Cause.DRIFT, _ASK, 90, lambda s: bool(s.drifted), "the check `as_declared` fails"),
    _case(Cause.UNUSUAL, _ASK, 60, lambda s: bool(s.unusual), "`as_usual` fails, and of no table that it is made of"),
    _case(Cause.UNDONE_WITH_RAW, _ASK, 100, lambda s: s.undone_with_raw, _UNDONE_WITH_RAW),
    _case(
        Cause.LOST_FILES, _ASK, 100, lambda s: s.rolled_back and s.lost, f"files are gone or damaged{_BESIDE_ROLLBACK}"
    ),
    _case(
        Cause.FOREIGN_WRITE,
        _ASK,
        100,
        lambda s: s.rolled_back and s.foreign,
        f"main holds files that no publication named{_BESIDE_ROLLBACK}",
    ),
    _case(
        Cause.CONTENT,
        _ASK,
        95,
        lambda s: s.rolled_back and _differs(s),
        f"its rows are not those of its publication{_BESIDE_ROLLBACK}",
    ),
    _case(Cause.ROLLED_BACK, _ASK, 100, lambda s: s.rolled_back, _HELD),
    _case(Cause.GONE_VERSION, _ASK, 100, lambda s: s.version_gone, "its version is not declared any more"),
    _case(Cause.EDITED_LOGIC, _ASK, 100, lambda s: bool(s.edited), "its version was edited since it published days"),
    _case(Cause.HELD_BACK, _ASK, 100, lambda s: bool(s.gates), "its gates held it back, built from just these inputs"),
    _case(Cause.TOO_LATE, _ASK, 100, lambda s: bool(s.asks), "its rows are later than its dataset takes by itself"),
    _case(Cause.LOST_FILES, _REBUILD, 100, lambda s: s.lost, "files are gone or damaged"),
    _case(Cause.FOREIGN_WRITE, _REBUILD, 100, lambda s: s.foreign, "main holds files that no publication named"),
    _case(Cause.CONTENT, _REBUILD, 95, _differs, "its rows are not those of its publication"),
    _case(Cause.CORRECTED, _REBUILD, 95, lambda s: s.late and s.corrected, "raw gained rows and lost others", "info"),
    _case(Cause.LATE, _REBUILD, 95, lambda s: s.late, "raw gained rows since", "info"),
    _case(Cause.REFERENCE, _REBUILD, 95, lambda s: s.reference, "what it looks back at was provisional", "info"),
    _case(Cause.INPUT, _REBUILD, 95, lambda s: s.changed, "an input was published again since", "info"),
    _case(Cause.DISAGREES, _ASK, 40, lambda s: bool(s.broken), _SAME_ROWS),
    _case(Cause.FAILED_RUN, _REBUILD, 70, lambda s: s.missing and s.run_failed, "its run ended before its gates"),
    _case(Cause.MISSING, _REBUILD, 90, lambda s: s.missing, "it can be built and never was", "info"),
)


@dataclass(frozen=True)
class Diagnosis:
    """The cause, what to do, how sure it is (a share of 1), and in the words of what was seen."""

    cause: Cause
    action: Action
    confidence: Decimal
    severity: Severity
    words: str


def diagnose(seen: Symptoms, least: Decimal = Decimal(0)) -> Diagnosis:
    """The first of :data:`CASES` that fits; a person decides where it is less sure than ``least``.

    Raises ``LookupError`` where nothing is wrong.
    """
    case = next((each for each in CASES if each.fits(seen)), None)
    if case is None:
        raise LookupError("Nothing of this is a symptom.")
    said = {
        Cause.UNREADABLE: seen.unreadable,
        Cause.AUTOMATION: seen.failing,
        Cause.INCOMPLETE: seen.incomplete,
        Cause.OVERDUE: seen.overdue,
        Cause.DRIFT: seen.drifted,
        Cause.UNUSUAL: seen.unusual,
        Cause.EDITED_LOGIC: seen.edited,
        Cause.HELD_BACK: seen.gates,
        Cause.GONE_VERSION: _ADOPTED if seen.adopted else "",
        Cause.TOO_LATE: seen.asks,
        Cause.DISAGREES: seen.disagreements,
    }
    sure = case.confidence >= least
    return Diagnosis(
        case.cause,
        case.action if sure else Action.ASK,
        case.confidence,
        case.severity,
        said.get(case.cause, "") or case.known_by,
    )
