"""Incidents: what went wrong with days of a table, what was tried, how it ended. One document each.

It is written before anything is launched or told; both are repeated under the same id until it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.records import Detail, Notice, Record
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.notice_routes import Severity
from backfill_assets.publish.log import Entry, Head, PublicationLog
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import format_count, format_ranges, suggest_or_list

_MEND = "Remove the file: what is still wrong is found again."
_MOST_RANGES, _MOST_COMPARED, _EVENT = 4, 5, "incident"
State = Literal["waiting", "repairing", "proving", "person", "closed"]
Proof = Literal["", "passed", "failed"]


class RepairAttempt(Record):
    """A backfill or restore of raw, with all that launches it again."""

    id: str
    at: datetime
    title: str
    description: str = ""
    days: Mapping[str, tuple[date, ...]]
    force: bool = False
    restores: bool = False
    evidence: Mapping[date, str] = Field(default_factory=dict)
    core_seconds: Decimal = Decimal(0)
    ended: datetime | None = None
    proof: Proof = ""


class Happened(Record):
    at: datetime
    words: str


class Acknowledgement(Record):
    """A person looks after an incident. It has its own file: only the sensor writes incidents."""

    by: str
    at: datetime
    until: datetime | None = None
    """By default as long as the evidence stays."""
    reason: str = ""
    evidence: str = ""


class Incident(Record):
    """Days of one table that are wrong for one cause, and what follows downstream."""

    id: str
    table: str
    dataset: str = ""
    cause: Cause
    severity: Severity
    confidence: str
    days: tuple[date, ...]
    words: str
    next_step: str = ""
    state: State = "waiting"
    opened: datetime
    attempts: tuple[RepairAttempt, ...] = ()
    plan: str = ""
    """A repair beyond its bounds, which waits for approval."""
    left_to: str = ""
    before: Mapping[date, str] = Field(default_factory=dict)
    after: Mapping[date, str] = Field(default_factory=dict)
    told: tuple[str, ...] = ()
    closed: datetime | None = None
    outcome: str = ""
    history: tuple[Happened, ...] = ()
    follows: Mapping[str, tuple[date, ...]] = Field(default_factory=dict)
    evidence: str = ""
    acknowledged: Acknowledgement | None = None
    disagreed: Mapping[str, tuple[date, ...]] = Field(default_factory=dict)
    """Days of ``follows`` on which the watchdog disagreed and that it reads again."""
    seen: Mapping[str, Mapping[date, str]] = Field(default_factory=dict)
    said: Mapping[date, str] = Field(default_factory=dict)
    saying: str = ""
    explained: tuple[str, ...] = ()
    """Contents and sayings of its days, as one led to the other; anything else is another fault."""
    further: tuple[str, ...] = ()
    following: tuple[RepairAttempt, ...] = ()
    """Backfills of sound days that were not built because of it."""
    right_since: datetime | None = None
    again: int = 0
    facts: tuple[Detail, ...] = ()

    @property
    def under_way(self) -> RepairAttempt | None:
        return next((each for each in self.attempts if each.ended is None), None)

    @property
    def first_ranges(self) -> str:
        return format_ranges(self.days, _MOST_RANGES)

    def then(self, at: datetime, said: str, **changes: object) -> Incident:
        return self.model_copy(update={**changes, "history": (*self.history, Happened(at=at, words=said))})

    def attempts_of(self, key: TableDay) -> list[RepairAttempt]:
        own = self.attempts if key.table == self.table else ()
        return [each for each in (*own, *self.following) if key.day in each.evidence]

    def tries(self, key: TableDay, evidence: str) -> int:
        """Attempts that left the day in the state ``evidence``, or whose check failed again."""
        return sum(each.proof == "failed" or each.evidence[key.day] == evidence for each in self.attempts_of(key))


class Closing(Record):
    """A person has closed an incident; a file like :class:`Acknowledgement`."""

    by: str
    reason: str
    at: datetime
    table: str
    cause: Cause
    days: tuple[date, ...]
    evidence: str = ""
    seen: Mapping[str, Mapping[date, str]] = Field(default_factory=dict)


def incident_id(table: str, cause: Cause, first: date, number: int) -> str:
    """``late-rows-fact-sales-20170304-1``, numbered by table, cause and first day."""
    return f"{cause.value}-{table}-{first:%Y%m%d}-{number}".replace(" ", "-").replace("_", "-")


class IncidentBook:
    def __init__(self, storage: Storage) -> None:
        self._open = Documents(storage, "_incidents/open", Incident, _MEND)
        self._closed = Documents(storage, "_incidents/closed", Incident, _MEND)
        self._closings = Documents(storage, "_incidents/closings", Closing, _MEND)
        self._acknowledged = Documents(storage, "_incidents/acknowledged", Acknowledgement, _MEND)

    def open(self) -> list[Incident]:
        """Finishes a close whose writer died."""
        closed = self._closed.files().keys() if (names := self._open.files()) else ()
        for name in names.keys() & closed:
            self._open.delete(name)
        return [each for each in self._open.readable() if each.id not in closed]

    def closed_since(self, moment: datetime) -> list[Incident]:
        newest = [name for name, file in self._closed.files().items() if file.modified_ms >= moment.timestamp() * 1000]
        found = (self._closed.get(name) for name in newest)
        return sorted((each for each in found if each), key=lambda each: (each.closed or moment, each.id))

    def get(self, id: str) -> Incident:
        """Raises :class:`InvalidRequest` if there is none."""
        found = self._closed.get(id) or self._open.get(id)
        if found is None:
            known = suggest_or_list(id, [*self._open.files()], "Open incidents")
            raise InvalidRequest(f"There is no incident {id!r}.", hint=known)
        return found

    def free_number(self, table: str, cause: Cause, first: date) -> int:
        start = incident_id(table, cause, first, 0)[:-1]
        kept = (self._open, self._closed, self._closings)
        taken = {name for each in kept for name in each.files() if name.startswith(start)}
        return next(number for number in range(1, len(taken) + 2) if f"{start}{number}" not in taken)

    def write(self, incident: Incident) -> None:
        if incident.closed is None:
            self._open.replace(incident.id, incident)
            return
        self._closed.replace(incident.id, incident)
        self._open.delete(incident.id)

    def ask_to_close(self, incident: Incident, by: str, reason: str, at: datetime) -> bool:
        """False if requested before. The sensor closes it at its next tick."""
        asked = Closing(
            by=by,
            reason=reason,
            at=at,
            table=incident.table,
            cause=incident.cause,
            days=incident.days,
            evidence=incident.evidence,
            seen=incident.seen,
        )
        return self._closings.create(incident.id, asked)

    def closings(self) -> dict[str, Closing]:
        found = {name: self._closings.get(name) for name in self._closings.files()}
        return {name: each for name, each in found.items() if each}

    def ask_to_acknowledge(
        self, incident: Incident, by: str, reason: str, at: datetime, until: datetime | None = None
    ) -> bool:
        if incident.closed is not None:
            return False
        said = Acknowledgement(by=by, at=at, until=until, reason=reason, evidence=incident.evidence)
        self._acknowledged.replace(incident.id, said)
        return True

    def acknowledgements(self) -> dict[str, Acknowledgement]:
        found = {name: self._acknowledged.get(name) for name in self._acknowledged.files()}
        return {name: each for name, each in found.items() if each}

    def forget_closed(self, before: datetime) -> int:
        """How many were deleted. Closings stay: what was accepted stays accepted."""
        old = [name for name, file in self._closed.files().items() if file.modified_ms < before.timestamp() * 1000]
        for name in old:
            self._closed.delete(name)
            self._acknowledged.delete(name)
        return len(old)


def record(log: PublicationLog, incident: Incident, stage: str) -> None:
    def row(head: Head) -> Entry | None:
        known = log.files().rows(["publication", "outcome"], event=[_EVENT]).to_pylist()
        if any((each["publication"], each["outcome"]) == (incident.id, stage) for each in known):
            return None
        said = {"event": _EVENT, "publication": incident.id, "kind": incident.cause.value, "outcome": stage}
        more = {
            "table": incident.table,
            "reason": incident.outcome or incident.words,
            "detail": incident.model_dump_json(),
        }
        return [{**said, **more}], lambda _: head.state

    log.settle(f"Recording the incident {incident.id}", row)


def spent_since(incidents: Iterable[Incident], moment: datetime) -> Decimal:
    """Estimated core seconds; an attempt of several incidents counts once."""
    launched = (each for incident in incidents for each in (*incident.attempts, *incident.following))
    attempts = {each.id: each for each in launched if each.at > moment}
    return sum((each.core_seconds for each in attempts.values()), Decimal(0))


def by_days(incidents: Iterable[Incident]) -> dict[TableDay, list[Incident]]:
    found: dict[TableDay, list[Incident]] = {}
    for each in incidents:
        keys = [TableDay(each.table, day) for day in each.days]
        keys += [TableDay(table, day) for table, days in each.follows.items() for day in days]
        for key in dict.fromkeys(keys):
            found.setdefault(key, []).append(each)
    return found


# ------------------------------------------------------------------ what people are told

OPENED, GIVEN_UP, OVER, AGAIN = "opened", "given-up", "closed", "again"


def stages_to_tell(incident: Incident) -> Iterator[str]:
    """True stages worth a message and not told yet; none while a person looks after it. Common faults that heal are
    only listed.
    """
    if incident.state == "closed":
        stages = {OVER: bool(incident.told)}
    else:
        given_up = incident.state == "person" and bool(incident.attempts)
        quiet, told = incident.acknowledged is not None, bool(incident.told)
        stages = {
            OPENED: not given_up and not told and (incident.severity != "info" or incident.state == "person"),
            GIVEN_UP: given_up and not (quiet and told),
            f"{AGAIN}-{incident.again}": told and not quiet and incident.again > 0,
        }
    yield from (stage for stage, is_due in stages.items() if is_due and stage not in incident.told)


def notice_of(incident: Incident, stage: str) -> Notice:
    title = f"{incident.table} {incident.first_ranges}: {incident.cause}"
    lines = [incident.words, *(f"Attempt {n}: {each.title}" for n, each in enumerate(incident.attempts, 1))]
    if stage == OVER:
        title, lines = f"Over: {title}", [incident.outcome, *_compared(incident)]
    elif stage == GIVEN_UP:
        title = f"Given up after {format_count(len(incident.attempts), 'attempt')}: {title}"
    return Notice(
        title=title,
        lines=(*lines, f"backfill incident show {incident.id}"),
        severity="critical" if stage == GIVEN_UP else incident.severity,
        dataset=incident.dataset,
        incident=incident.id,
        resolved=stage == OVER,
        to_do="" if stage == OVER else incident.next_step,
        facts=incident.facts,
    )


def _compared(incident: Incident) -> Iterator[str]:
    pairs = ((day, incident.before.get(day), incident.after.get(day, "nothing")) for day in incident.days)
    changed = [f"{day}: {before} -> {after}" for day, before, after in pairs if before not in (None, after)]
    yield from changed[:_MOST_COMPARED]
    if (more := len(changed) - _MOST_COMPARED) > 0:
        yield f"and {format_count(more, 'more day')}"
