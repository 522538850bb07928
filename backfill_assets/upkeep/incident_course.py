"""How incidents go on: opened, repaired, proven, given up, closed. Pure: what is open and what is seen in, changes out.

An attempt is over when its backfill is. Then the very check that failed is asked again: of late rows and changed inputs
the log itself, of files and content the watchdog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.days import TableDay
from backfill_assets.text import format_count, format_ranges
from backfill_assets.upkeep.diagnosis import Action, Cause, Diagnosis
from backfill_assets.upkeep.for_people import ManualAction
from backfill_assets.upkeep.incidents import Closing, Happened, Incident, Proof, RepairAttempt, incident_id
from backfill_assets.upkeep.repair import Repair, RepairDecision
from backfill_assets.upkeep.trouble import StaleDay

PROVEN_BY_WATCHDOG = frozenset({Cause.LOST_RAW, Cause.LOST_FILES, Cause.FOREIGN_WRITE, Cause.CONTENT})
Key = tuple[str, Cause]


@dataclass(frozen=True)
class Progress:
    """What is seen of what was launched, looked at before the decision was made."""

    now: datetime
    ended: Mapping[str, str] = field(default_factory=dict)
    """How the backfill of an attempt ended, by its id; without those that go on."""
    proofs: Mapping[TableDay, bool] = field(default_factory=dict)
    """What the watchdog says of what is published now, where it has looked at just that."""
    closings: Mapping[str, Closing] = field(default_factory=dict)
    figures: Callable[[TableDay], str] = str
    """What a day holds, in words."""
    dataset_of: Callable[[str], str] = str
    free_number: Callable[[str, Cause, date], int] = lambda *_: 1


@dataclass
class _Wanted:
    """What the decision says of one table and cause."""

    diagnosis: Diagnosis
    days: set[date] = field(default_factory=set)
    attempts: list[RepairAttempt] = field(default_factory=list)
    person: ManualAction | None = None
    left_to: str = ""


def proven(known: Sequence[Incident], seen: Progress) -> list[Incident]:
    """``known`` with what is seen of what was launched, before it is decided what comes next."""
    return [_read_again(_ended(each, seen), seen) for each in known]


def advance(known: Sequence[Incident], decision: RepairDecision, seen: Progress) -> list[Incident]:
    """All incidents as they are now, new ones too. ``known`` are those that were open, as :func:`proven` gives them.

    Those about tables that nothing can be decided of stay as they are.
    """
    wanted = _wanted(decision, seen.now)
    kept = [each for each in known if each.table in decision.undecided and each.cause is not Cause.UNREADABLE]
    still = [_proven(_closed_by_person(each, seen), decision, seen) for each in known if each not in kept]
    going = _diagnosed_anew([each for each in still if not each.closed], wanted, decision, seen)
    after = [_gone_on(each, wanted.pop((each.table, each.cause), None), seen) for each in going]
    opened = [_opened(table, cause, each, seen) for (table, cause), each in wanted.items() if each.days]
    return [*(each for each in still if each.closed), *after, *opened, *kept]


def _diagnosed_anew(
    going: Sequence[Incident], wanted: Mapping[Key, _Wanted], decision: RepairDecision, seen: Progress
) -> list[Incident]:
    """With another cause, where a repair has shown another one; of some of its days alone, an incident is split.

    Days of an attempt that is under way stay with it until that has ended.
    """
    found = {each.id: each for each in going}
    for (table, cause), each in wanted.items():
        for old in [every for every in found.values() if every.table == table and _is_another(every.cause, cause)]:
            moved = each.days.intersection(old.days)
            if not moved or (old.attempts and old.attempts[-1].proof == "passed"):
                continue  # What was wrong is over: this is another fault.
            if old.under_way or old.state == "proving":
                each.days -= moved
                continue
            wrong = {trouble.day for trouble in decision.diagnoses if trouble.table == table}
            same = next((every for every in found.values() if (every.table, every.cause) == (table, cause)), None)
            if same is None and wrong.intersection(old.days) <= moved:
                said = f"it is {cause} now: {each.diagnosis.words}"
                about = {"cause": cause, "severity": each.diagnosis.severity, "words": each.diagnosis.words}
                found[old.id] = old.then(seen.now, said, **about, confidence=str(each.diagnosis.confidence))
                continue
            tried = [attempt for attempt in old.attempts if moved.intersection(attempt.evidence)]
            left = tuple(day for day in old.days if day not in moved)
            found[old.id] = old.then(seen.now, f"{format_ranges(moved)}: {cause}, an incident of its own", days=left)
            new = same or _opened(table, cause, each, seen)
            found[new.id] = new.model_copy(update={"attempts": (*tried, *new.attempts)})
    return [each for each in found.values() if each.days]


def _is_another(old: Cause, new: Cause) -> bool:
    """A table that could not be read and can be again is mended: what is wrong with its days is another fault."""
    return old is not new and old is not Cause.UNREADABLE


def _wanted(decision: RepairDecision, now: datetime) -> dict[Key, _Wanted]:
    found: dict[Key, _Wanted] = {}

    def of(table: str, diagnosis: Diagnosis) -> _Wanted:
        return found.setdefault((table, diagnosis.cause), _Wanted(diagnosis))

    for repair in decision.launch:
        groups: dict[Key, list[StaleDay]] = {}
        for trouble in repair.troubles:
            groups.setdefault((trouble.table, decision.diagnoses[trouble].cause), []).append(trouble)
        for (table, _), troubles in groups.items():
            each = of(table, decision.diagnoses[troubles[0]])
            each.days.update(trouble.day for trouble in troubles)
            each.attempts.append(_attempt(repair, troubles, now))
    for trouble in (*decision.later, *decision.left_to):
        each = of(trouble.table, decision.diagnoses[trouble])
        each.days.add(trouble.day)
        each.left_to = decision.left_to.get(trouble, each.left_to)
    for action in decision.for_people:
        if action.diagnosis:
            each = of(action.table, action.diagnosis)
            each.days.update(action.days)
            each.person = action
    return found


def _attempt(repair: Repair, troubles: Sequence[StaleDay], now: datetime) -> RepairAttempt:
    return RepairAttempt(
        id=repair.id,
        at=now,
        title=repair.title,
        description=repair.description,
        days=repair.days,
        force=repair.force,
        restores=repair.restores,
        evidence={each.day: each.evidence for each in troubles},
        core_seconds=repair.core_seconds,
    )


def _opened(table: str, cause: Cause, wanted: _Wanted, seen: Progress) -> Incident:
    days = tuple(sorted(wanted.days))
    found = wanted.diagnosis
    new = Incident(
        id=incident_id(table, cause, days[0], seen.free_number(table, cause, days[0])),
        table=table,
        dataset=seen.dataset_of(table),
        cause=cause,
        severity=found.severity,
        confidence=str(found.confidence),
        days=days,
        words=found.words,
        opened=seen.now,
        before={day: seen.figures(TableDay(table, day)) for day in days},
        history=(Happened(at=seen.now, words=f"opened: {found.words}"),),
    )
    return _gone_on(new, wanted, seen)


def _gone_on(incident: Incident, wanted: _Wanted | None, seen: Progress) -> Incident:
    """With what the decision wants of it; closed if nothing of it is wrong, and nothing under way."""
    if wanted is None:
        if incident.under_way or incident.state == "proving":
            return incident
        did = [each.id for each in incident.attempts if each.proof == "passed"]
        if incident.cause is Cause.UNREADABLE:
            return _closed(incident, "it can be read again", seen)
        how = "the watchdog read it again" if incident.cause in PROVEN_BY_WATCHDOG else "it is built from its inputs"
        return _closed(incident, f"repaired by {did[-1]}: {how}" if did else "right again, without a repair", seen)
    days = tuple(sorted({*incident.days, *wanted.days}))
    new = {day: seen.figures(TableDay(incident.table, day)) for day in days if day not in incident.before}
    if days != incident.days:
        incident = incident.model_copy(update={"days": days, "before": {**incident.before, **new}})
    known = {each.id for each in incident.attempts}
    for attempt in (each for each in wanted.attempts if each.id not in known):
        words = f"launched {attempt.id}: {attempt.title}"
        incident = incident.then(
            seen.now, words, attempts=(*incident.attempts, attempt), state="repairing", next_step=""
        )
    if wanted.left_to != incident.left_to and not incident.under_way:
        said = f"left to {wanted.left_to}" if wanted.left_to else f"no longer left to {incident.left_to}"
        incident = incident.then(seen.now, said, left_to=wanted.left_to, state="waiting")
    return _for_person(incident, wanted.person, seen)


def _for_person(incident: Incident, action: ManualAction | None, seen: Progress) -> Incident:
    if action is None or incident.under_way:
        return incident
    state = "waiting" if action.diagnosis and action.diagnosis.action is Action.WAIT else "person"
    next_step = incident.next_step if incident.plan else action.next_step
    if (incident.state, incident.words, incident.next_step) == (state, action.why, next_step):
        return incident
    said = f"{'waits' if state == 'waiting' else 'for a person'}: {action.why} -> {next_step}"
    return incident.then(seen.now, said, state=state, words=action.why, next_step=next_step)


def _ended(incident: Incident, seen: Progress) -> Incident:
    for number, attempt in enumerate(incident.attempts):
        if attempt.ended is None and attempt.id in seen.ended:
            over = attempt.model_copy(update={"ended": seen.now})
            attempts = (*incident.attempts[:number], over, *incident.attempts[number + 1 :])
            words = f"{attempt.id} ended: {seen.ended[attempt.id]}"
            incident = incident.then(seen.now, words, attempts=attempts, state="proving")
    return incident


def _read_again(incident: Incident, seen: Progress) -> Incident:
    """With what the watchdog says of the days that the last attempt has built, once it has read all of them."""
    if incident.cause not in PROVEN_BY_WATCHDOG or incident.state != "proving" or incident.under_way:
        return incident
    verdicts = [seen.proofs.get(TableDay(incident.table, day)) for day in incident.attempts[-1].evidence]
    return incident if None in verdicts else _with_proof(incident, verdicts.count(False), seen)


def _proven(incident: Incident, decision: RepairDecision, seen: Progress) -> Incident:
    """Of what the log proves: its last attempt failed if its days are in the state that they were in."""
    if incident.closed or incident.state != "proving" or incident.under_way:
        return incident
    wrong = {each.day: each.evidence for each in decision.diagnoses if each.table == incident.table}
    unchanged = sum(wrong.get(day) == evidence for day, evidence in incident.attempts[-1].evidence.items())
    if incident.cause in PROVEN_BY_WATCHDOG and not unchanged:
        return incident
    return _with_proof(incident, unchanged, seen)


def _with_proof(incident: Incident, failed: int, seen: Progress) -> Incident:
    last = incident.attempts[-1]
    proof: Proof = "failed" if failed else "passed"
    said = f"{last.id} did not put {format_count(failed, 'day')} right" if failed else f"{last.id} put its days right"
    attempts = (*incident.attempts[:-1], last.model_copy(update={"proof": proof}))
    return incident.then(seen.now, said, attempts=attempts, state="waiting")


def _closed_by_person(incident: Incident, seen: Progress) -> Incident:
    closing = seen.closings.get(incident.id)
    return (
        incident
        if closing is None or incident.closed
        else _closed(incident, f"closed by {closing.by}: {closing.reason}", seen)
    )


def _closed(incident: Incident, outcome: str, seen: Progress) -> Incident:
    after = {day: seen.figures(TableDay(incident.table, day)) for day in incident.days}
    return incident.then(seen.now, outcome, state="closed", closed=seen.now, outcome=outcome, after=after, next_step="")


def launches(incidents: Sequence[Incident]) -> Iterator[RepairAttempt]:
    """What must have been launched, each once: asking again for one that was changes nothing."""
    found = {each.id: each for incident in incidents for each in incident.attempts if each.ended is None}
    yield from found.values()


def proofs_to_ask(incidents: Sequence[Incident]) -> dict[str, dict[str, tuple[date, ...]]]:
    """The days that the watchdog is asked about, by attempt and table."""
    found: dict[str, dict[str, tuple[date, ...]]] = {}
    for each in incidents:
        if each.state == "proving" and each.cause in PROVEN_BY_WATCHDOG and not each.under_way:
            last = each.attempts[-1]
            found.setdefault(last.id, {})[each.table] = tuple(sorted(last.evidence))
    return found
