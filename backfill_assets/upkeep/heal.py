"""One look at what is wrong, and everything that follows: launch, prove, tell.

A decision is written, then carried out at each look, under one id, until its document says that it is done: each
backfill, proof and notice exists once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Protocol

from backfill_assets.days import TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.foreign_commits import ForeignCommit, find_foreign_commits
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.outbox import announce
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import LogView
from backfill_assets.upkeep.effect import NO_ADDRESSES, Addresses, Surroundings, with_facts
from backfill_assets.upkeep.incident_course import (
    PROVEN_BY_WATCHDOG,
    Progress,
    advance,
    launches,
    proofs_to_ask,
    proven,
)
from backfill_assets.upkeep.incidents import (
    Incident,
    IncidentBook,
    RepairAttempt,
    by_days,
    notice_of,
    record,
    stages_to_tell,
)
from backfill_assets.upkeep.read_days import ReadDays
from backfill_assets.upkeep.repair import RepairDecision, repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets.upkeep.wanted import first_builds, unrecorded, with_failed_builds

KEPT_CLOSED = timedelta(days=90)


class Hands(Protocol):
    def launch(self, attempt: RepairAttempt) -> None:
        """Does nothing if the backfill was launched before."""

    def ended(self, attempts: Iterable[RepairAttempt]) -> Mapping[str, str]:
        pass

    def look(self, known: Sequence[Incident]) -> RepairContext: ...

    def verdicts(self, table: str, publications: Mapping[str, str]) -> Mapping[date, bool]:
        """The watchdog's verdicts on exactly these publications, by day."""

    def dataset_of(self, table: str) -> str: ...

    def plan(self, incident: Incident) -> str:
        """The id of a plan that waits for a person; raises :class:`BackfillError`."""


class Healed:
    def __init__(self, decision: RepairDecision, open_: Sequence[Incident], closed: Sequence[Incident]) -> None:
        self.decision, self.open, self.closed = decision, open_, closed

    def lines(self) -> Iterator[str]:
        for repair in self.decision.launch:
            yield f"Launched {'' if repair.restores else 'the backfill '}{repair.id}: {repair.title}"
        yield from (f"Waiting: {text}" for text in self.decision.waiting)
        yield from (f"For a person: {each}" for each in self.decision.for_people)
        yield from (f"Closed {each.id}: {each.outcome}" for each in self.closed)

    @property
    def proofs(self) -> Mapping[str, Mapping[str, Sequence[date]]]:
        return proofs_to_ask((*self.open, *self.closed))


def heal(
    storage: Storage, hands: Hands, now: datetime, at: Addresses = NO_ADDRESSES, left_out: Collection[str] = ()
) -> Healed:
    """Asks for ended backfills first, to see what they published. Incidents of ``left_out`` tables stay."""
    book = IncidentBook(storage)
    known = [each for each in book.open() if each.cause is not Cause.AUTOMATION]  # the sensor that fails has those
    known = [each for each in known if each.table not in left_out]
    for attempt in launches(known):
        hands.launch(attempt)
    ended = hands.ended(launches(known))
    seen = hands.look(known)
    held = ReadDays(storage, seen.steps, seen.observed, _doubted(seen, known))
    progress = Progress(
        now,
        ended,
        proofs=dict(_verdicts(hands, known, seen.observed)),
        withdrawn={key for key, state in seen.observed.states.items() if state.content is None},
        closings=book.closings(),
        acknowledgements=book.acknowledgements() if known else {},
        figures=lambda key: str(held.of(key)),
        dataset_of=hands.dataset_of,
        free_number=book.free_number,
    )
    before = {each.id: each for each in known}
    known = proven(known, progress)
    decision = _decision(replace(seen, incidents=by_days(known), closings=progress.closings), hands, now)
    found = advance(known, decision, progress)
    planned = [_with_plan(each, decision, hands, now) for each in found if not each.closed]
    around = _surroundings(storage, seen, held)
    opened = [with_facts(each, around, at, before.get(each.id)) for each in planned]
    closed = [with_facts(each, around, at, each) for each in found if each.closed]
    for each in opened:
        if each != before.get(each.id):
            book.write(each)
    for attempt in (*launches(opened), *unrecorded(decision, opened, now)):
        hands.launch(attempt)
    for each in opened:
        if (told := tell(storage, each, at)) != each:
            book.write(told)
    for each in closed:
        # A closed one is not looked at again: what is told of it comes first.
        book.write(tell(storage, each, at))
    book.forget_closed(now - KEPT_CLOSED)
    return Healed(decision, opened, closed)


def _decision(seen: RepairContext, hands: Hands, now: datetime) -> RepairDecision:
    decision = repairs_needed(seen)
    builds = first_builds(decision, now)
    return with_failed_builds(decision, hands.ended(builds)) if builds else decision


def _verdicts(hands: Hands, known: Sequence[Incident], observed: LogView) -> Iterator[tuple[TableDay, bool]]:
    for days in proofs_to_ask(known).values():
        for table, dates in days.items():
            states = ((day, observed.states.get(TableDay(table, day))) for day in dates)
            publications = {str(day): state.publication for day, state in states if state}
            for day, passed in hands.verdicts(table, publications).items():
                yield TableDay(table, day), passed


def _doubted(seen: RepairContext, known: Sequence[Incident]) -> set[TableDay]:
    wrong = (each for each in known if each.cause in PROVEN_BY_WATCHDOG)
    return {*seen.watches, *(TableDay(each.table, day) for each in wrong for day in each.days)}


def _surroundings(storage: Storage, seen: RepairContext, held: ReadDays) -> Surroundings:
    def commits(table: str, days: Collection[date]) -> Sequence[ForeignCommit]:
        files = seen.observed.files.get(table)
        if files is None:
            return ()
        publications = {day: seen.observed.publication(TableDay(table, day)) for day in days}
        return find_foreign_commits(storage, table, files.version, publications)

    return Surroundings(
        steps=seen.steps,
        published=seen.published,
        content=seen.observed.content,
        held=held.of,
        commits=commits,
        disagreements=lambda key: seen.watches[key].disagreements if key in seen.watches else (),
        run_of=lambda key: _run_of(seen, key),
        held_back=lambda key: seen.held_by_stream(key) if key.table in seen.step_of else None,
    )


def _run_of(seen: RepairContext, key: TableDay) -> str:
    gate = seen.held_by_streams.get(key) or seen.failed_gates.get(key)
    ended = seen.not_run.get(key) or gate
    return ended.run if ended else ""


def _with_plan(incident: Incident, decision: RepairDecision, hands: Hands, now: datetime) -> Incident:
    large = {(each.table, each.diagnosis.cause) for each in decision.for_people if each.too_large and each.diagnosis}
    if incident.plan or incident.state != "person" or (incident.table, incident.cause) not in large:
        return incident
    try:
        plan = hands.plan(incident)
    except BackfillError as error:
        # Other days are repaired all the same; the incident says once why there is no plan.
        said = f"no plan could be made: {error.message}"
        return incident if said in (each.words for each in incident.history) else incident.then(now, said)
    step = f"backfill run {plan}, then backfill approve {plan}"
    return incident.then(now, f"planned as {plan}", plan=plan, next_step=step)


def tell(storage: Storage, incident: Incident, at: Addresses = NO_ADDRESSES) -> Incident:
    stages = list(stages_to_tell(incident))
    for stage in stages:
        record(PublicationLog(storage), incident, stage)
        announce(storage, f"{incident.id}-{stage}", at.told(notice_of(incident, stage)))
    return incident.model_copy(update={"told": (*incident.told, *stages)})
