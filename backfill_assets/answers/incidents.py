"""Incidents: the list, one in detail, and what a person says of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from backfill_assets.errors import InvalidRequest
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Toned, seconds
from backfill_assets.upkeep.effect import looked_after
from backfill_assets.upkeep.incidents import Incident, IncidentBook

_TONES = {"closed": Tone.GOOD, "person": Tone.BAD, "waiting": Tone.WARN}
WORDS = {"person": "for a person"}
_ORDER = {"critical": 0, "warning": 1, "info": 2}
_DURATION = re.compile(r"(?P<count>\d{1,4})(?P<unit>[mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def incidents_answer(open_: Iterable[Incident], closed: Iterable[Incident] = ()) -> Answer:
    """Open ones first, those for people leading; then ``closed``, newest first."""
    found = sorted(open_, key=lambda each: (each.state != "person", _ORDER[each.severity], each.opened, each.id))
    rows = [
        (
            Id(each.id),
            Toned(WORDS.get(each.state, each.state), _TONES.get(each.state, Tone.PLAIN)),
            each.severity,
            each.table,
            Days.of(each.days),
            each.cause,
            looked_after(each),
            len(each.attempts),
            each.opened,
            each.outcome or each.next_step or (f"left to {each.left_to}" if each.left_to else each.words),
        )
        for each in (*found, *reversed(list(closed)))
    ]
    columns = (
        *("incident", "state", "severity", "table", "days", "cause"),
        *("looked after by", "attempts", "opened", "what"),
    )
    table = Grid("incidents", columns, rows, drop=("opened", "attempts", "severity"))
    if not rows:
        return Answer(parts=(table, Line("No incident is open.", Tone.GOOD)))
    needs = [each for each in found if each.state == "person"]
    return Answer(parts=(table,), next=tuple(f"backfill incident show {each.id}" for each in needs[:1]))


def incident_answer(incident: Incident, ui: str = "") -> Answer:
    over = incident.closed
    links = {each.label: f"{ui}{each.link}" for each in incident.facts if each.link and ui}
    facts: list[Part] = [
        Fact("incident", Id(incident.id)),
        Fact("state", Toned(WORDS.get(incident.state, incident.state), _TONES.get(incident.state, Tone.PLAIN))),
        Fact("table", incident.table),
        Fact("days", Days.of(incident.days)),
        Fact("cause", f"{incident.cause} ({incident.severity}, confidence {incident.confidence})"),
        *(Fact(each.label, [*each.words.split("; "), *_link(links, each.label)]) for each in incident.facts),
        *([Fact("outcome", incident.outcome)] if incident.outcome else []),
        *([Fact("open for", seconds((over - incident.opened).total_seconds()))] if over else []),
    ]
    happened = Grid("history", ("at", "what"), [(each.at, each.words) for each in incident.history])
    return Answer(
        sentence(incident),
        (*facts, happened, _days(incident)),
        next=(incident.next_step,) if incident.next_step else (),
        links=links,
    )


def _link(links: Mapping[str, str], label: str) -> list[str]:
    return [links[label]] if label in links else []


def sentence(incident: Incident) -> str:
    about = f"{incident.table} {incident.first_ranges}: {incident.cause}"
    return f"{about}." if incident.words == incident.cause.value else f"{about}: {incident.words.rstrip('.')}."


def _days(incident: Incident) -> Grid:
    rows: Sequence[Sequence[object]] = [
        (day, incident.before.get(day, ""), incident.after.get(day, "")) for day in incident.days
    ]
    return Grid("each_day", ("day", "before", "after"), rows)


# ------------------------------------------------------------------ what a person says of one


def acknowledge(book: IncidentBook, id: str, by: str, now: datetime, reason: str = "", until: str = "") -> Answer:
    """``until``: a duration such as ``4h``, or empty until something else is observed."""
    found = book.get(id)
    ends = now + duration(until) if until else None
    if not book.ask_to_acknowledge(found, by, reason, now, ends):
        return Answer(parts=(Fact("incident", Id(found.id)), Line("It is closed already.")))
    how_long = f"until {ends:%Y-%m-%d %H:%M} UTC, or until" if ends else "until"
    words = f"It is looked after {how_long} something else is seen of it. The sensor says so from its next tick on."
    return Answer(parts=(Fact("incident", Id(found.id)), Fact("looked after by", by), Line(words)))


def close(book: IncidentBook, id: str, by: str, now: datetime, reason: str) -> Answer:
    if not reason.strip():
        raise InvalidRequest("An incident is closed with a reason.", hint="Say why it is settled: others read it.")
    found = book.get(id)
    asked = found.closed is None and book.ask_to_close(found, by, reason, now)
    words = "The sensor closes it at its next tick." if asked else "It is closed already."
    return Answer(parts=(Fact("incident", Id(found.id)), Line(words)))


def duration(text: str) -> timedelta:
    """Parses ``30m``, ``4h`` or ``2d``; raises :class:`InvalidRequest`, also for zero."""
    found = _DURATION.fullmatch(text.strip())
    parts: Mapping[str, int] = {_UNITS[found["unit"]]: int(found["count"])} if found else {}
    if not any(parts.values()):
        raise InvalidRequest(f"{text!r} is no time.", hint="Write minutes, hours or days: 30m, 4h, 2d.")
    return timedelta(**parts)
