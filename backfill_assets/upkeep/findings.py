"""What is wrong with each day at one look, and its place in the lineage. Pure.

A finding is a day of a table with its gravest cause.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import logical_of
from backfill_assets.model.declaration import Step
from backfill_assets.quality.watchdogs import metrics_needed
from backfill_assets.state.diagnosis import Cause, Diagnosis, diagnose
from backfill_assets.upkeep.failed_checks import HeldByGates, HeldByStream
from backfill_assets.upkeep.incidents import Closing
from backfill_assets.upkeep.trouble import RepairContext, StaleDay, digest

PENDING = frozenset({Cause.CORRECTED, Cause.LATE, Cause.REFERENCE, Cause.INPUT, Cause.MISSING, Cause.FAILED_RUN})
"""Causes that are repaired as soon as inputs allow."""
FOLLOWING = frozenset({Cause.UNUSUAL, Cause.DISAGREES, Cause.HELD_BACK})
"""What a wrong day causes downstream."""
_DECIDED = frozenset({Cause.ROLLED_BACK, Cause.CLOSED})
SUSPECTED = frozenset({Cause.INCOMPLETE, Cause.OVERDUE, Cause.DRIFT, Cause.UNUSUAL})
_FAMILIES: tuple[frozenset[Cause], ...] = (
    SUSPECTED,
    frozenset(
        {
            *PENDING,
            Cause.HELD_BACK,
            Cause.TOO_LATE,
            Cause.GONE_VERSION,
            Cause.EDITED_LOGIC,
            Cause.CLOSED,
            Cause.ROLLED_BACK,
            Cause.UNDONE_WITH_RAW,
        }
    ),
    frozenset({Cause.LOST_FILES, Cause.FOREIGN_WRITE, Cause.CONTENT, Cause.DISAGREES}),
    frozenset({Cause.LOST_RAW, Cause.FOREIGN_RAW}),
)
_CHECKS: Mapping[str, Cause] = {
    "delivered": Cause.INCOMPLETE,
    "delivered_as_usual": Cause.OVERDUE,
    "as_sent": Cause.INCOMPLETE,
    "as_declared": Cause.DRIFT,
    "as_usual": Cause.UNUSUAL,
}


@dataclass(frozen=True)
class WrongDay:
    table: str
    day: date
    diagnosis: Diagnosis
    evidence: str
    """A digest of the wrong state: a person's decision holds until it changes."""
    saying: str = ""
    content: str = ""
    further: tuple[str, ...] = ()
    accepted: bool = False
    outdated: bool = False
    growing: bool = False
    run: str = ""

    @property
    def key(self) -> TableDay:
        return TableDay(self.table, self.day)

    @property
    def cause(self) -> Cause:
        return self.diagnosis.cause

    @property
    def what(self) -> tuple[TableDay, Cause]:
        return self.key, self.cause

    @property
    def silent(self) -> bool:
        """Decided by a person, or not known to be a fault."""
        return self.accepted or self.outdated or self.growing or self.cause in _DECIDED

    @property
    def fault(self) -> tuple[str, Cause, str]:
        return self.table, self.cause, self.saying


def is_one_fault(cause: Cause, other: Cause) -> bool:
    return cause is other or any({cause, other} <= family for family in _FAMILIES)


# ------------------------------------------------------------------ what is said, without its figures

_NEXT_STEP, _ASIDE = re.compile(r" -> .*", re.DOTALL), re.compile(r"\([^()]*\)|, for example [^;]*| on \d+ days?\b")
_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?")
_FIGURE = re.compile(r"[+-]?\d[\d,.:%-]*")
_DATES = re.compile(r" (?:since|on|by) \d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?")
_COMPARED = re.compile(r"expected (?P<expected>.*?), observed (?P<observed>.*?)(?=; [\w ,]+: expected |$)", re.DOTALL)
_DRIFTED = re.compile(r"(?P<field>[^;]*? is (?:not declared|missing|of another type)): [^;]*")


def saying(words: str) -> str:
    """``words`` without figures, days and examples: days that differ in these have one fault."""
    plain = _DRIFTED.sub(r"\g<field>", _ASIDE.sub("", _NEXT_STEP.sub("", words)))
    plain = _COMPARED.sub(lambda found: f"observed {_sides(found['expected'], found['observed'])}", plain)
    return _FIGURE.sub("#", _DATES.sub("", plain)).strip()


def _sides(expected: str, observed: str) -> str:
    limits = expected.split("; ")
    parts = observed.split("; ")
    sides = (_side(limits[min(number, len(limits) - 1)], part) for number, part in enumerate(parts))
    return "; ".join(f"{part.strip()}{side}" for part, side in zip(parts, sides, strict=True))


def _side(expected: str, observed: str) -> str:
    limits, values = _numbers(expected)[:2], _numbers(observed)[:1]
    if not limits or not values or min(limits) <= values[0] <= max(limits):
        return ""
    return " below" if values[0] < min(limits) else " above"


def _numbers(words: str) -> list[float]:
    return [float(each.replace(",", "")) for each in _NUMBER.findall(words)]


# ------------------------------------------------------------------ where a day lies


@dataclass(frozen=True)
class Lineage:
    """What a day reads or is compared with, in its published version; a place is a step and a day."""

    seen: RepairContext

    def place(self, key: TableDay) -> TableDay:
        return TableDay(self.seen.step_of[key.table].name, key.day)

    def order(self, table: str) -> int:
        return self._orders[self.seen.step_of[table].name]

    @cached_property
    def _orders(self) -> Mapping[str, int]:
        return {step.name: number for number, step in enumerate(self.seen.steps)}

    def read(self, key: TableDay) -> Iterator[TableDay]:
        step = self.seen.step_of[key.table]
        version = self.seen.version(key.table, key.day) or (step.version() if step.versions else None)
        period = step.cadence.period(key.day)
        for read in self.seen.inputs.days_read(step, version, key.day):
            yield from self._places(step, read.table, [read.day])
        for table in {name for each in step.tables for name in metrics_needed(each)}:
            yield from self._places(step, table, period)

    def _places(self, step: Step, table: str, days: Iterable[date]) -> Iterator[TableDay]:
        source = self.seen.step_of.get(table)
        if source is not None and source.name != step.name and self.order(table) < self.order(step.name):
            yield from (TableDay(source.name, source.cadence.start(day)) for day in days)

    def above(self, key: TableDay, places: Collection[TableDay]) -> list[TableDay]:
        """The ``places`` upstream of ``key``, earliest tables first."""
        found, met, ahead = [], set[TableDay](), [self.place(key)]
        while ahead:
            for place in self.read(ahead.pop()):
                if place not in met:
                    met.add(place)
                    ahead.append(place)
                    if place in places:
                        found.append(place)
        return sorted(found, key=lambda each: (self.order(each.table), each.day))

    def is_beside(self, table: str, day: date, days: Iterable[date]) -> bool:
        cadence = self.seen.step_of[table].cadence
        own = cadence.period(day)
        near = {cadence.start(date.fromordinal(n)) for n in (own.first.toordinal() - 1, own.last.toordinal() + 1)}
        return not near.isdisjoint(days) or day in days


# ------------------------------------------------------------------ what is found


def findings_of(seen: RepairContext, wrong: Iterable[StaleDay]) -> tuple[WrongDay, ...]:
    lineage = Lineage(seen)
    found = [*_of_stale_days(seen, lineage, wrong), *_of_suspicions(seen, lineage)]
    order = list(Cause)
    return tuple(
        sorted(found, key=lambda f: (lineage.order(f.table), f.cause in SUSPECTED, order.index(f.cause), f.day))
    )


def _of_stale_days(seen: RepairContext, lineage: Lineage, wrong: Iterable[StaleDay]) -> Iterator[WrongDay]:
    for stale in wrong:
        found = stale.diagnosis
        gate = seen.gate_of(stale.key) if found.cause is Cause.HELD_BACK else None
        step = seen.step_of[stale.table]
        keys = [TableDay(name, stale.day) for name in step.table_names]
        broken = sorted({rule for key in keys if key in seen.watches for rule in seen.watches[key].broken})
        said = saying(found.words)
        if found.cause is Cause.DISAGREES:
            said = ", ".join(broken)
        if found.no_version:
            said = seen.version_name(stale.table, stale.day)
        more = [*broken, gate.made_of if isinstance(gate, HeldByGates) else ""]
        evidence = evidence_of(lineage, stale.key, found.cause, more)
        if isinstance(gate, HeldByStream):
            evidence = gate.evidence
        run = next((seen.not_run[key].run for key in keys if key in seen.not_run), "")
        yield WrongDay(
            *stale.key,
            found,
            evidence,
            said,
            content_of(lineage, stale.key),
            accepted=is_accepted(seen.closings.values(), stale.key, found, said, evidence),
            growing=found.cause is Cause.MISSING and is_first_build(seen, stale),
            run=gate.run if gate else run,
        )


def _of_suspicions(seen: RepairContext, lineage: Lineage) -> Iterator[WrongDay]:
    for key, (found, further) in suspicions_of(seen).items():
        said, checks = saying(found.words), sorted(seen.suspicions[key])
        evidence = evidence_of(lineage, key, found.cause, checks)
        accepted = is_accepted(seen.closings.values(), key, found, said, evidence)
        open_ = any(incident.cause in SUSPECTED for incident in seen.incidents.get(key, ()))
        yield WrongDay(
            *(*key, found, evidence, said, content_of(lineage, key), further),
            accepted=accepted,
            outdated=key in seen.judged_before and not open_,
        )


def suspicions_of(seen: RepairContext) -> dict[TableDay, tuple[Diagnosis, tuple[str, ...]]]:
    found: dict[TableDay, tuple[Diagnosis, tuple[str, ...]]] = {}
    for key, said in sorted(seen.suspicions.items()):
        signs: dict[Cause, str] = {}
        for check, cause in _CHECKS.items():
            if check in said:
                signs.setdefault(cause, said[check])
        if signs and key.table in seen.step_of:
            diagnosis = diagnose(signs)
            found[key] = (diagnosis, tuple(words for words in said.values() if words != diagnosis.words))
    return found


def evidence_of(lineage: Lineage, key: TableDay, cause: Cause, more: Sequence[str]) -> str:
    """A digest of the day's content, its inputs and the failed checks; compaction keeps it."""
    read = [] if is_one_fault(cause, Cause.UNUSUAL) else sorted(set(lineage.read(key)))
    made_of = [(place.table, str(place.day), _logical(lineage.seen, place)) for place in read]
    return digest([cause.value, content_of(lineage, key), made_of, list(more)], 12)


def content_of(lineage: Lineage, key: TableDay) -> str:
    tables = lineage.seen.step_of[key.table].table_names
    return digest([str(key.day), [_logical(lineage.seen, TableDay(name, key.day)) for name in tables]], 12)


def _logical(seen: RepairContext, key: TableDay) -> str:
    return logical_of(seen.observed.states.get(key), seen.observed.now(key))


def fault_evidence(diagnosis: Diagnosis, said: str) -> str:
    return digest([diagnosis.cause.value, diagnosis.severity, said], 12)


def is_first_build(seen: RepairContext, stale: StaleDay) -> bool:
    """Whether nothing is published before the day, or nothing after it: a table that grows has lost nothing."""
    if seen.incidents.get(stale.key):
        return False
    there = seen.published.get(seen.step_of[stale.table].name, ())
    return not there or not min(there) < stale.day < max(there)


def is_accepted(closings: Iterable[Closing], key: TableDay, found: Diagnosis, said: str, evidence: str) -> bool:
    """Whether a person has closed this; drift of the same fields stays accepted on later days."""
    return any(
        _was_seen(each, key, found, said, evidence)
        if each.evidence
        else (each.table, each.cause) == (key.table, found.cause) and key.day in each.days
        for each in closings
    )


def _was_seen(closing: Closing, key: TableDay, found: Diagnosis, said: str, evidence: str) -> bool:
    goes_on = found.cause is Cause.DRIFT and closing.table == key.table
    return closing.seen.get(key.table, {}).get(key.day) == evidence or (
        goes_on and closing.evidence == fault_evidence(found, said)
    )
