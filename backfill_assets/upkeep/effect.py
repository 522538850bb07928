"""The facts of an incident: since when, how much, which reports, whose, who wrote, what is done. Pure.

Rows and money are the difference from what was published, if known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Context, Decimal

from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.foreign_commits import ForeignCommit
from backfill_assets.lakehouse.records import TOTAL, DayContent, Detail, Notice
from backfill_assets.model.declaration import Step
from backfill_assets.model.graph import Days, step_by_table, walk_downstream
from backfill_assets.state.diagnosis import FOREIGN, Cause
from backfill_assets.text import currency_of, format_count, measure_name, money
from backfill_assets.ui_addresses import asset_page, backfill_page, run_page, runs_page
from backfill_assets.upkeep.failed_checks import Disagreement, HeldByStream
from backfill_assets.upkeep.incidents import Incident, RepairAttempt

SINCE, AFFECTED, REPORTS, OWNER = "since", "affected", "reports", "owner"
DISAGREES, WRITTEN_BY, RUN = "disagrees", "written by", "run"
DONE, LOOKED_AFTER, PAGE, REPAIR, PLAN = "what is done", "looked after", "page", "repair", "plan"
_STANDING = (DONE, LOOKED_AFTER, PAGE, REPAIR, PLAN)
_MOST_REPORTS, _MOST_SUMS, _MOST_COMMITS = 5, 3, 3
_EXACT = Context(prec=100)
_BY_A_RUN = (Cause.FAILED_RUN, Cause.HELD_BACK)


@dataclass(frozen=True)
class ReadDay:
    rows: int | None = 0
    totals: Mapping[str, Decimal] = field(default_factory=dict)
    content: str = ""
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        if self.rows is None:
            return "an unknown number of rows"
        if not self.rows and not self.content:
            return "nothing"
        return ", ".join([in_words(self.rows, self.totals), *([f"content {self.content}"] if self.content else [])])


@dataclass(frozen=True)
class Surroundings:
    steps: Sequence[Step]
    published: Days
    content: Callable[[TableDay], DayContent | None]
    held: Callable[[TableDay], ReadDay]
    commits: Callable[[str, Collection[date]], Sequence[ForeignCommit]] = lambda *_: ()
    disagreements: Callable[[TableDay], Sequence[Disagreement]] = lambda _: ()
    run_of: Callable[[TableDay], str] = lambda _: ""
    held_back: Callable[[TableDay], HeldByStream | None] = lambda _: None


@dataclass(frozen=True)
class Addresses:
    ui: str = ""
    plan_page: Callable[[str], str] = lambda _: ""
    owners: Callable[[str], Sequence[str]] = lambda _: ()
    difference: Callable[[str], str] = lambda _: ""

    def told(self, notice: Notice) -> Notice:
        """Makes links absolute or, without ``ui``, leaves them out."""
        wanted = (each for each in notice.facts if self.ui or each.label != PAGE)
        links = {each: f"{self.ui}{each.link}" if self.ui and each.link else "" for each in wanted}
        facts = tuple(each.model_copy(update={"link": link}) for each, link in links.items())
        return notice.model_copy(update={"facts": facts})


NO_ADDRESSES = Addresses()


def facts_of(incident: Incident, around: Surroundings, at: Addresses) -> tuple[Detail, ...]:
    commits = around.commits(incident.table, incident.days) if incident.cause in FOREIGN else ()
    below = _days_below(incident, around)
    sums = list(dict.fromkeys(map(str, _disagreements(incident, around))))
    runs = dict.fromkeys(filter(None, (around.run_of(TableDay(incident.table, day)) for day in incident.days)))
    run = next(iter(runs), "") if incident.cause in _BY_A_RUN else ""
    held = [each for day in incident.days if (each := around.held_back(TableDay(incident.table, day)))]
    moments = [*(each.at for each in commits if each.at), *(each.since for each in held)]
    found = (
        Detail(label=SINCE, words=_moment(min(moments, default=incident.opened))),
        Detail(label=AFFECTED, words=f"{_affected(incident, around)}{_waiting(held)}"),
        Detail(label=REPORTS, words=_reports(below, around)),
        Detail(label=OWNER, words=", ".join(at.owners(incident.table))),
        Detail(label=DISAGREES, words=_some(sums, _MOST_SUMS)),
        Detail(label=WRITTEN_BY, words=_written_by(commits) if incident.cause in FOREIGN else ""),
        Detail(label=RUN, words=run, link=run_page(run) if run else ""),
    )
    return tuple(each for each in found if each.words)


def standing_facts(incident: Incident, at: Addresses) -> tuple[Detail, ...]:
    last, plan = next(reversed(incident.attempts), None), incident.plan
    changes = at.difference(plan) if plan else ""
    found = (
        Detail(label=DONE, words=_what_is_done(incident)),
        Detail(label=LOOKED_AFTER, words=looked_after(incident)),
        Detail(label=PAGE, words="incidents", link=asset_page("incidents")),
        Detail(label=REPAIR, words=last.id if last else "", link=_repair_page(last) if last else ""),
        Detail(label=PLAN, words=f"{plan}: {changes}" if changes else plan, link=at.plan_page(plan) if plan else ""),
    )
    return tuple(each for each in found if each.words)


def _repair_page(attempt: RepairAttempt) -> str:
    return runs_page("backfill/restore", attempt.id) if attempt.restores else backfill_page(attempt.id)


def with_facts(incident: Incident, around: Surroundings, at: Addresses, before: Incident | None) -> Incident:
    """Facts stay while days are repaired: they tell what was wrong."""
    standing = standing_facts(incident, at)
    seen = tuple(each for each in incident.facts if each.label not in _STANDING)
    if not seen or before is None or _shows_more(incident, before):
        seen = facts_of(incident, around, at)
    return incident.model_copy(update={"facts": (*seen, *standing)})


def _shows_more(incident: Incident, before: Incident) -> bool:
    is_other = (incident.table, incident.cause, incident.words) != (before.table, before.cause, before.words)
    more = not {*incident.days} <= {*before.days}
    below = any(not {*days} <= {*before.follows.get(table, ())} for table, days in incident.follows.items())
    return is_other or ((more or below) and not incident.under_way)


# ------------------------------------------------------------------ how much, and of which reports


def _days_below(incident: Incident, around: Surroundings) -> dict[str, set[date]]:
    def visit(step: Step, own: set[date], reading: set[date]) -> set[date]:
        there = {day for name in step.table_names for day in around.published.get(name, ())}
        return own | (reading & there)

    given = {incident.table: incident.days, **{name: days for name, days in incident.follows.items() if days}}
    return walk_downstream(around.steps, given, visit)


def _affected(incident: Incident, around: Surroundings) -> str:
    keys = [TableDay(incident.table, day) for day in incident.days]
    days = f"{format_count(len(keys), _period(around, incident.table))} of {incident.table}"
    held = [around.held(key) for key in keys]
    if problems := list(dict.fromkeys(each.problem for each in held if each.problem)):
        return f"{days}: {_some(problems, 1)}{_as_published(keys, around)}"
    if any(each.rows is None for each in held):
        return f"{days}, with an unknown number of rows"
    rows = sum(each.rows or 0 for each in held)
    if not rows and all(around.content(key) is None for key in keys):
        return f"{days}: nothing is published of {'it' if len(keys) == 1 else 'them'}"
    return f"{days}: {in_words(rows, _summed(each.totals for each in held))}{_than_published(keys, held, around)}"


def _waiting(held: Sequence[HeldByStream]) -> str:
    events = sum(each.events for each in held)
    return f"; {format_count(events, 'event')} {'waits' if events == 1 else 'wait'} in raw" if held else ""


def _as_published(keys: Sequence[TableDay], around: Surroundings) -> str:
    rows, totals = _published(keys, around)
    return f"; published were {in_words(rows, totals)}" if rows else ""


def _than_published(keys: Sequence[TableDay], held: Sequence[ReadDay], around: Surroundings) -> str:
    pairs = [(each, content) for key, each in zip(keys, held, strict=True) if (content := around.content(key))]
    changed = [(each, content) for each, content in pairs if not each.content]
    if not changed:
        return ""
    rows = sum((each.rows or 0) - content.rows for each, content in changed)
    before = _summed(_totals(content) for _, content in changed)
    after = _summed(each.totals for each, _ in changed)
    sums = {name: _EXACT.subtract(after[name], before[name]) for name in before.keys() & after.keys()}
    name = first_total(sums)
    parts = [(rows, format_count(abs(rows), "row"))] if rows else []
    if name and sums[name]:
        parts.append((1 if sums[name] > 0 else -1, total_in_words(name, abs(sums[name]))))
    return f"; {_more_or_less(parts)} than published" if parts else "; as many as were published"


def _more_or_less(parts: Sequence[tuple[int, str]]) -> str:
    """``1 row and amount 10.50 EUR more``; ``1 row less and amount 10.50 EUR more``."""
    words = ["more" if sign > 0 else "less" for sign, _ in parts]
    if len(set(words)) == 1:
        return f"{' and '.join(text for _, text in parts)} {words[0]}"
    return " and ".join(f"{text} {word}" for (_, text), word in zip(parts, words, strict=True))


def _published(keys: Iterable[TableDay], around: Surroundings) -> tuple[int, Mapping[str, Decimal]]:
    contents = [content for key in keys if (content := around.content(key))]
    return sum(content.rows for content in contents), _summed(map(_totals, contents))


def _reports(below: Days, around: Surroundings) -> str:
    tables = [table for step in around.steps for table in step.tables if table.layer == "report"]
    lines = [_report(table.name, sorted(below[table.name]), around) for table in tables if below.get(table.name)]
    if not tables:
        return ""
    if not lines:
        return "none: no published report is made of it"
    return _some(lines, _MOST_REPORTS)


def _report(table: str, days: Sequence[date], around: Surroundings) -> str:
    rows, totals = _published([TableDay(table, day) for day in days], around)
    return f"{table}: {format_count(len(days), _period(around, table))}, {in_words(rows, totals)}"


def _period(around: Surroundings, table: str) -> str:
    step = step_by_table(around.steps).get(table)
    return (step.cadence if step else Cadence.DAILY).noun


def in_words(rows: int, totals: Mapping[str, Decimal]) -> str:
    """``3,971 rows, amount 12,345.67 EUR``, with the total that is money or else the first."""
    name = first_total(totals)
    return ", ".join([format_count(rows, "row"), *([total_in_words(name, totals[name])] if name else [])])


def total_in_words(name: str, value: Decimal) -> str:
    found = value.normalize(_EXACT)
    places = -int(found.as_tuple().exponent)
    least = 2 if currency_of(name) else 0
    shown = found.quantize(Decimal(1).scaleb(-max(places, least)), context=_EXACT)
    return f"{measure_name(name).lower()} {money(shown, name)}"


def first_total(totals: Mapping[str, Decimal]) -> str:
    return next(filter(currency_of, totals), None) or next(iter(totals), "")


def _totals(content: DayContent) -> dict[str, Decimal]:
    names = (name.removeprefix(TOTAL) for name in content.metrics if name.startswith(TOTAL))
    return {name: value for name in names if (value := content.figure(f"{TOTAL}{name}")) is not None}


def published_day(content: DayContent) -> ReadDay:
    return ReadDay(content.rows, _totals(content), content.logical[:8])


def _summed(days: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    listed = [each for each in days if each]
    names = [name for name in listed[0] if all(name in each for each in listed)] if listed else []
    found = dict.fromkeys(names, Decimal(0))
    for each in listed:
        found |= {name: _EXACT.add(found[name], each[name]) for name in names}
    return found


# ------------------------------------------------------------------ who wrote, what disagrees, and what is done


def _written_by(commits: Sequence[ForeignCommit]) -> str:
    return _some([str(each) for each in commits], _MOST_COMMITS) or "not known: no commit that is kept names its days"


def _disagreements(incident: Incident, around: Surroundings) -> Iterator[Disagreement]:
    for day in incident.days:
        yield from around.disagreements(TableDay(incident.table, day))


def _what_is_done(incident: Incident) -> str:
    if incident.closed:
        return ""
    if attempt := incident.under_way:
        return f"repair {attempt.id} since {_moment(attempt.at)}"
    if incident.state == "proving":
        return "repaired; its check is asked again"
    if incident.left_to:
        return f"{incident.left_to} is rebuilding its days"
    if incident.state == "person":
        return "it waits for a person" if not incident.acknowledged else ""
    return "it waits, and goes on by itself"


def looked_after(incident: Incident) -> str:
    said = incident.acknowledged
    if said is None:
        return ""
    until = f" until {_moment(said.until)}" if said.until else ""
    return f"{said.by}{until}{f': {said.reason}' if said.reason else ''}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _some(texts: Sequence[str], most: int) -> str:
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more
