"""Incidents: which there are, and of one what was wrong, what was tried, and what its days hold now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Tone, Toned, seconds
from backfill_assets.upkeep.incidents import Incident

_TONES = {"closed": Tone.GOOD, "person": Tone.BAD, "waiting": Tone.WARN}
_WORDS = {"person": "for a person"}
_ORDER = {"critical": 0, "warning": 1, "info": 2}


def incidents_answer(open_: Iterable[Incident], closed: Iterable[Incident] = ()) -> Answer:
    """Those that are open, what a person is needed for first; then ``closed`` ones, newest first."""
    found = sorted(open_, key=lambda each: (each.state != "person", _ORDER[each.severity], each.opened, each.id))
    rows = [
        (
            Id(each.id),
            Toned(_WORDS.get(each.state, each.state), _TONES.get(each.state, Tone.PLAIN)),
            each.severity,
            each.table,
            Days.of(each.days),
            each.cause,
            len(each.attempts),
            each.opened,
            each.outcome or each.next_step or (f"left to {each.left_to}" if each.left_to else each.words),
        )
        for each in (*found, *reversed(list(closed)))
    ]
    columns = ("incident", "state", "severity", "table", "days", "cause", "attempts", "opened", "what")
    drop = ("opened", "attempts", "severity")
    table = Grid("incidents", columns, rows, drop=drop)
    if not rows:
        return Answer(parts=(table, Line("No incident is open.", Tone.GOOD)))
    needs = [each for each in found if each.state == "person"]
    return Answer(parts=(table,), next=tuple(f"backfill incident show {each.id}" for each in needs[:1]))


def incident_answer(incident: Incident) -> Answer:
    """What was wrong and why, each thing that happened, and each day before and after."""
    over = incident.closed
    facts = [
        Fact("incident", Id(incident.id)),
        Fact("state", Toned(_WORDS.get(incident.state, incident.state), _TONES.get(incident.state, Tone.PLAIN))),
        Fact("table", incident.table),
        Fact("days", Days.of(incident.days)),
        Fact("cause", f"{incident.cause} ({incident.severity}, confidence {incident.confidence})"),
        Fact("seen", incident.words),
        *([Fact("plan", Id(incident.plan))] if incident.plan else []),
        *([Fact("outcome", incident.outcome)] if incident.outcome else []),
        *([Fact("open for", seconds((over - incident.opened).total_seconds()))] if over else []),
    ]
    happened = Grid("history", ("at", "what"), [(each.at, each.words) for each in incident.history])
    return Answer(
        f"{incident.table}: {incident.cause}",
        (*facts, happened, _days(incident)),
        next=(incident.next_step,) if incident.next_step else (),
    )


def _days(incident: Incident) -> Grid:
    rows: Sequence[Sequence[object]] = [
        (day, incident.before.get(day, ""), incident.after.get(day, "")) for day in incident.days
    ]
    return Grid("each_day", ("day", "before", "after"), rows)
