"""How incidents go on: opened, joined, repaired, proven, given up, closed. Pure.

After a backfill, the log proves late rows and changed inputs, the watchdog files and content.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Action, Cause, diagnose
from backfill_assets.text import format_count, format_ranges
from backfill_assets.upkeep.findings import FOLLOWING, PENDING, SUSPECTED, WrongDay, fault_evidence
from backfill_assets.upkeep.for_people import ManualAction
from backfill_assets.upkeep.incidents import (
    Acknowledgement,
    Closing,
    Happened,
    Incident,
    Proof,
    RepairAttempt,
    incident_id,
)
from backfill_assets.upkeep.repair import RepairDecision
from backfill_assets.upkeep.roots import ONE_EVENT, Root, following, moved_to, roots_of
from backfill_assets.upkeep.wanted import Wanted

PROVEN_BY_WATCHDOG = frozenset({Cause.LOST_RAW, Cause.LOST_FILES, Cause.FOREIGN_WRITE, Cause.CONTENT})
_MOST_FURTHER = 6


@dataclass(frozen=True)
class Progress:
    now: datetime
    ended: Mapping[str, str] = field(default_factory=dict)
    proofs: Mapping[TableDay, bool] = field(default_factory=dict)
    withdrawn: Collection[TableDay] = ()
    closings: Mapping[str, Closing] = field(default_factory=dict)
    acknowledgements: Mapping[str, Acknowledgement] = field(default_factory=dict)
    figures: Callable[[TableDay], str] = str
    dataset_of: Callable[[str], str] = str
    free_number: Callable[[str, Cause, date], int] = lambda *_: 1


def proven(known: Sequence[Incident], seen: Progress) -> list[Incident]:
    return [_read_again(_ended(each, seen), seen) for each in known]


def advance(known: Sequence[Incident], decision: RepairDecision, seen: Progress) -> list[Incident]:
    """All incidents after ``decision``; ``known`` are open ones from :func:`proven`. Only a person changes those of
    undecided tables.
    """
    broken = [each for each in known if each.cause is Cause.UNREADABLE]
    kept = [each for each in known if each.table in decision.undecided and each not in broken]
    decided = [each for each in known if each not in broken and each not in kept]
    still = [_proven(_closed_by_person(each, seen), decision, seen) for each in decided]
    still += [_closed_by_person(each, seen) for each in kept]
    going = [each for each in still if not each.closed and each.table not in decision.undecided]
    wanted = Wanted.of(decision, launches(known))
    roots = roots_of(decision.findings, going, decision.lineage, seen.now, wanted.acted_on)
    ids = {root: root.incident.id for root in roots if root.incident and root.findings}
    found: list[Incident] = []
    # New ones first: what others say of their days names them.
    for root in sorted(roots, key=lambda each: each.incident is not None):
        if (incident := _of_root(root, wanted, decision, seen, ids)) is not None:
            ids[root] = incident.id
            found.append(incident)
    found += [each for each in still if not each.closed and each.table in decision.undecided]
    found += _of_unreadable(broken, decision, seen)
    before = {each.id: each for each in known}
    after = (_looked_after(each, before.get(each.id), seen) for each in found)
    return [*(each for each in still if each.closed), *after]


def _of_root(
    root: Root, wanted: Wanted, decision: RepairDecision, seen: Progress, ids: Mapping[Root, str]
) -> Incident | None:
    found = [each for each in root.findings if not each.silent]
    if root.incident is None:
        is_new = any(each.what in wanted.acted_on for each in found) or (
            any(each.cause not in PENDING and each.key not in decision.under_way for each in found)
        )
        return _gone_on(_opened(root, found, seen), root, found, wanted, seen) if is_new else None
    if root.in_progress:
        return _gone_on(root.incident, root, found, wanted, seen)
    unsettled = {day for day in root.incident.days if TableDay(root.incident.table, day) in decision.unsettled}
    if not found:
        if unsettled.difference(root.moved):
            return root.incident
        if not root.moved and (waiting := _waiting_for_followers(root.incident, root, seen)):
            return waiting
        return _ended_without_days(root, root.incident, decision, seen, ids)
    incident = _diagnosed_anew(root.incident, found, seen)
    return _gone_on(_with_days(incident, root, found, unsettled, seen, ids), root, found, wanted, seen)


def _of_unreadable(known: Sequence[Incident], decision: RepairDecision, seen: Progress) -> Iterator[Incident]:
    """One incident, closed once the table can be read. If a person closed it, equal evidence opens none."""
    actions = {each.table: each for each in decision.unreadable}
    for each in (_closed_by_person(each, seen) for each in known):
        action = actions.pop(each.table, None)
        if each.closed or action is None:
            yield each if each.closed else _closed(each, "it can be read again", seen)
        else:
            yield _for_person(each, action, seen)
    for action in actions.values():
        new = _of_table(action, seen)
        said = ((each.table, each.cause, each.evidence) for each in seen.closings.values())
        if (new.table, new.cause, new.evidence) not in said:
            yield _for_person(new, action, seen)


def _of_table(action: ManualAction, seen: Progress) -> Incident:
    found = diagnose({Cause.UNREADABLE: action.why})
    first = action.days[0]
    return Incident(
        id=incident_id(action.table, found.cause, first, seen.free_number(action.table, found.cause, first)),
        table=action.table,
        dataset=seen.dataset_of(action.table),
        cause=found.cause,
        severity=found.severity,
        confidence=str(found.confidence),
        days=action.days,
        words=found.words,
        opened=seen.now,
        history=(Happened(at=seen.now, words=f"opened: {found.words}"),),
        evidence=fault_evidence(found, action.why),
    )


# ------------------------------------------------------------------ opened, joined, and what it is about


def _opened(root: Root, found: Sequence[WrongDay], seen: Progress) -> Incident:
    first, days = found[0], tuple(sorted({each.day for each in found}))
    before = root.split_from
    return Incident(
        id=incident_id(first.table, first.cause, days[0], seen.free_number(first.table, first.cause, days[0])),
        table=first.table,
        dataset=seen.dataset_of(first.table),
        cause=first.cause,
        severity=first.diagnosis.severity,
        confidence=str(first.diagnosis.confidence),
        days=days,
        words=first.diagnosis.words,
        opened=seen.now,
        before={day: seen.figures(TableDay(first.table, day)) for day in days},
        history=(Happened(at=seen.now, words=f"opened: {first.diagnosis.words}"),),
        attempts=tuple(each for each in (before.attempts if before else ()) if each.evidence.keys() & days),
        saying=first.saying,
        evidence=fault_evidence(first.diagnosis, first.saying),
    )


def _diagnosed_anew(incident: Incident, found: Sequence[WrongDay], seen: Progress) -> Incident:
    first = found[0]
    if (incident.table, incident.cause) == (first.table, first.cause):
        return incident
    about: dict[str, object] = {
        "cause": first.cause,
        "severity": first.diagnosis.severity,
        "confidence": str(first.diagnosis.confidence),
        "words": first.diagnosis.words,
    }
    if incident.table == first.table:
        return incident.then(seen.now, f"it is {first.cause} now: {first.diagnosis.words}", **about)
    days = format_ranges(each.day for each in found)
    said = f"it comes from {first.table} {days}: {first.cause}: {first.diagnosis.words}"
    below = {**incident.follows, incident.table: incident.days}
    more = {"table": first.table, "days": (), "before": {}, "attempts": (), "plan": "", "follows": below}
    return incident.then(seen.now, said, **about, **more, following=(*incident.following, *incident.attempts))


def _with_days(
    incident: Incident,
    root: Root,
    found: Sequence[WrongDay],
    unsettled: set[date],
    seen: Progress,
    ids: Mapping[Root, str],
) -> Incident:
    wrong = {each.day for each in found}
    left = set(incident.days) - wrong - unsettled
    for other, days in moved_to(root):
        gone = left.intersection(days)
        if gone and (name := ids.get(other)):
            said = f"{format_ranges(gone)}: {other.cause}, an incident of its own: {name}"
            incident = incident.then(seen.now, said)
            left -= gone
    sound = left & {each.day for each in root.follows if each.table == incident.table}
    if sound:
        incident = incident.then(seen.now, f"{format_ranges(sound)}: sound, and not built because of the others")
    if left - sound:
        incident = incident.then(seen.now, f"{format_ranges(left - sound)}: right again")
    return incident.model_copy(update={"days": tuple(sorted(wrong | unsettled.intersection(incident.days)))})


def _gone_on(incident: Incident, root: Root, found: Sequence[WrongDay], wanted: Wanted, seen: Progress) -> Incident:
    incident = _joined(incident, root, found, seen)
    known = {each.id for each in incident.attempts}
    for attempt in (each for each in wanted.attempts(found, seen.now) if each.id not in known):
        words = f"launched {attempt.id}: {attempt.title}"
        attempts = (*incident.attempts, attempt)
        incident = incident.then(seen.now, words, attempts=attempts, state="repairing", next_step="")
    known = {each.id for each in (*incident.attempts, *incident.following)}
    for attempt in (each for each in wanted.attempts(root.follows, seen.now) if each.id not in known):
        words = f"launched {attempt.id} of sound days that were not built with these: {attempt.title}"
        incident = incident.then(seen.now, words, following=(*incident.following, attempt))
    left_to = wanted.rebuilt_by(found)
    if left_to != incident.left_to and not incident.under_way and found:
        said = f"left to {left_to}" if left_to else f"no longer left to {incident.left_to}"
        incident = incident.then(seen.now, said, left_to=left_to, state="waiting")
    return _for_person(incident, wanted.person(found), seen)


def _joined(incident: Incident, root: Root, found: Sequence[WrongDay], seen: Progress) -> Incident:
    days = tuple(sorted({*incident.days, *(each.day for each in found)}))
    new = {day: seen.figures(TableDay(incident.table, day)) for day in days if day not in incident.before}
    evidence: dict[str, dict[date, str]] = {}
    for each in (*found, *root.follows):
        evidence.setdefault(each.table, {})[each.day] = each.evidence
    beside = [words for each in found for words in each.further]
    beside += [f"{each.table} {each.day}: {each.diagnosis.words}" for each in root.follows]
    about: dict[str, object] = {"days": days, "before": {**incident.before, **new}}
    about["right_since"] = None
    about["follows"] = following(root.follows, incident.follows)
    disagree = [each for each in root.follows if each.cause is Cause.DISAGREES]
    about["disagreed"] = following(disagree, incident.disagreed)
    if found and not (root.incident and root.in_progress):
        first = found[0]
        about["seen"], about["said"] = evidence, {each.day: each.diagnosis.words for each in found}
        about["further"] = tuple(dict.fromkeys(beside))[:_MOST_FURTHER]
        about["explained"] = tuple(dict.fromkeys((*incident.explained, *_explained(incident, found))))
        about["saying"], about["evidence"] = first.saying, fault_evidence(first.diagnosis, first.saying)
    changed = {name: value for name, value in about.items() if value != getattr(incident, name)}
    return incident.model_copy(update=changed) if changed else incident


def _explained(incident: Incident, found: Iterable[WrongDay]) -> Iterator[str]:
    for each in found:
        if each.cause in SUSPECTED and each.saying not in incident.explained:
            yield from (each.content, each.saying)


def _for_person(incident: Incident, action: ManualAction | None, seen: Progress) -> Incident:
    if action is None or incident.under_way:
        return incident
    state = "waiting" if action.diagnosis and action.diagnosis.helps is Action.WAIT else "person"
    next_step = incident.next_step if incident.plan else action.next_step
    if (incident.state, incident.words, incident.next_step) == (state, action.why, next_step):
        return incident
    said = f"{'waits' if state == 'waiting' else 'for a person'}: {action.why} -> {next_step}"
    return incident.then(seen.now, said, state=state, words=action.why, next_step=next_step)


# ------------------------------------------------------------------ what people said


def _looked_after(incident: Incident, was: Incident | None, seen: Progress) -> Incident:
    """An acknowledgement ends by time or other evidence; the incident is told again unless it is less grave."""
    said, before = seen.acknowledgements.get(incident.id), incident.acknowledged
    if incident.closed or (said is None and before is None):
        return incident
    ended = said is None or (said.until is not None and said.until <= seen.now)
    other = said is not None and bool(said.evidence) and said.evidence != incident.evidence
    if said is not None and not ended and not other:
        until = f" until {said.until:%Y-%m-%d %H:%M} UTC" if said.until else ""
        words = f"acknowledged by {said.by}{until}" + (f": {said.reason}" if said.reason else "")
        return incident if before == said else incident.then(seen.now, words, acknowledged=said)
    if before is None:
        return incident
    why = "what is seen is another thing now" if other else "its time has passed"
    is_told = ended or was is None or not _is_lesser(incident, was)
    again = incident.again + is_told
    return incident.then(seen.now, f"no longer acknowledged: {why}", acknowledged=None, again=again)


def _is_lesser(incident: Incident, was: Incident) -> bool:
    order, severities = list(Cause), ("info", "warning", "critical")
    graver = severities.index(incident.severity) > severities.index(was.severity)
    return not graver and order.index(incident.cause) > order.index(was.cause)


def _closed_by_person(incident: Incident, seen: Progress) -> Incident:
    closing = seen.closings.get(incident.id)
    return (
        incident
        if closing is None or incident.closed
        else _closed(incident, f"closed by {closing.by}: {closing.reason}", seen)
    )


# ------------------------------------------------------------------ repaired, proven, closed


def _ended(incident: Incident, seen: Progress) -> Incident:
    for number, attempt in enumerate(incident.attempts):
        if attempt.ended is None and attempt.id in seen.ended:
            over = attempt.model_copy(update={"ended": seen.now})
            attempts = (*incident.attempts[:number], over, *incident.attempts[number + 1 :])
            words = f"{attempt.id} ended: {seen.ended[attempt.id]}"
            incident = incident.then(seen.now, words, attempts=attempts, state="proving")
    for attempt in incident.following:
        if attempt.ended is None and attempt.id in seen.ended:
            over = attempt.model_copy(update={"ended": seen.now})
            rest = tuple(over if each is attempt else each for each in incident.following)
            incident = incident.then(seen.now, f"{attempt.id} ended: {seen.ended[attempt.id]}", following=rest)
    return incident


def _read_again(incident: Incident, seen: Progress) -> Incident:
    if incident.cause not in PROVEN_BY_WATCHDOG or incident.state != "proving" or incident.under_way:
        return incident
    keys = [TableDay(incident.table, day) for day in incident.attempts[-1].evidence]
    left = [key for key in keys if key not in seen.withdrawn]
    if not left:
        return incident.then(seen.now, "its days are published no more: nothing is left to read", state="waiting")
    verdicts = [seen.proofs.get(key) for key in left]
    return incident if None in verdicts else _with_proof(incident, verdicts.count(False), seen)


def _proven(incident: Incident, decision: RepairDecision, seen: Progress) -> Incident:
    if incident.closed or incident.state != "proving" or incident.under_way:
        return incident
    wrong = {each.day: each.evidence for each in decision.stale if each.table == incident.table}
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


_DECIDED_BY_PEOPLE = {
    Cause.ROLLED_BACK: "a person has rolled its days back: backfill status shows them",
    Cause.CLOSED: "its days are closed: backfill status shows by whom and why",
}


def _ended_without_days(
    root: Root, incident: Incident, decision: RepairDecision, seen: Progress, ids: Mapping[Root, str]
) -> Incident:
    """It stays if its days belong to another fault without an incident."""
    others = [other for other, _ in moved_to(root)]
    names = sorted({ids[other] for other in others if other in ids})
    if names:
        return _closed(incident, f"it goes on within {', '.join(names)}", seen)
    silent = [each for other in others for each in other.findings if each.silent]
    silent += [each for each in root.findings if each.silent]
    if decided := next((each.cause for each in silent if each.cause in _DECIDED_BY_PEOPLE), None):
        return _closed(incident, _DECIDED_BY_PEOPLE[decided], seen)
    if silent:
        return _closed(incident, "a person has closed the same before", seen)
    return incident if others else _closed(incident, _right_again(incident), seen)


def _right_again(incident: Incident) -> str:
    did = [each.id for each in incident.attempts if each.proof == "passed"]
    if not did and incident.cause is Cause.HELD_BACK:
        return "its gates hold it back no more"
    how = "the watchdog read it again" if incident.cause in PROVEN_BY_WATCHDOG else "it is built from its inputs"
    if did:
        return f"repaired by {did[-1]}: {how}"
    if incident.left_to:
        return f"right again: {incident.left_to} has built its days"
    if incident.plan:
        return f"right again, after {incident.plan} was made for it"
    return "right again, without a repair"


def _waiting_for_followers(incident: Incident, root: Root, seen: Progress) -> Incident | None:
    if not any(each.cause in FOLLOWING and not each.silent for each in root.follows):
        return None
    if incident.right_since is None:
        words = "its days are right again: what followed is looked at again"
        return incident.then(seen.now, words, right_since=seen.now, state="waiting", next_step="")
    return incident if seen.now - incident.right_since < ONE_EVENT else None


def _closed(incident: Incident, outcome: str, seen: Progress) -> Incident:
    after = {day: seen.figures(TableDay(incident.table, day)) for day in incident.days}
    return incident.then(seen.now, outcome, state="closed", closed=seen.now, outcome=outcome, after=after, next_step="")


# ------------------------------------------------------------------ what is to be done


def launches(incidents: Sequence[Incident]) -> Iterator[RepairAttempt]:
    attempts = (each for incident in incidents for each in (*incident.attempts, *incident.following))
    yield from {each.id: each for each in attempts if each.ended is None}.values()


def proofs_to_ask(incidents: Sequence[Incident]) -> dict[str, dict[str, tuple[date, ...]]]:
    found: dict[str, dict[str, tuple[date, ...]]] = {}
    for each in incidents:
        last = each.attempts[-1] if each.attempts and each.cause in PROVEN_BY_WATCHDOG else None
        is_right = each.closed or each.right_since
        if last and each.state == "proving" and not each.under_way:
            _ask(found.setdefault(last.id, {}), {each.table: tuple(last.evidence)}, each.disagreed)
        elif is_right and each.disagreed and not (last and last.proof == "passed"):
            _ask(found.setdefault(each.id, {}), each.disagreed)
    return found


def _ask(asked: dict[str, tuple[date, ...]], *all_days: Mapping[str, Sequence[date]]) -> None:
    for table, days in ((table, days) for each in all_days for table, days in each.items()):
        asked[table] = tuple(sorted({*asked.get(table, ()), *days}))
