"""Timelines: the list, one beside main, what was built, and moments to rewind to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date

from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline, RawRead
from backfill_assets.lakehouse.records import DayRecord, DayRecords
from backfill_assets.rebuild.lake import Lake
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Worded, size
from backfill_assets.state.view import View, differing
from backfill_assets.text import format_count, format_ranges
from backfill_assets.timeline.build import TimelineBuilt
from backfill_assets.timeline.moments_listed import MomentWorthGoingTo, what_changed
from backfill_assets.timeline.switch import SwitchPlan, days_behind
from backfill_assets.timeline.view import StaleDays, is_of_campaign, next_for_stale, stale_days, stale_ranges

_MOST_RANGES = 6
_NOTHING_CHANGED = "What is published has not changed."


@dataclass(frozen=True)
class FoundTimeline:
    timeline: NamedTimeline
    main: DayRecords
    stale: StaleDays
    behind: int | None = None


def look_at(lake: Lake, timeline: NamedTimeline) -> FoundTimeline:
    main = View.newest(lake.storage).records(timeline.days)
    stale = stale_days(lake.storage, timeline, lake.catalog.steps)
    return FoundTimeline(timeline, main, stale, days_behind(lake, timeline))


# ------------------------------------------------------------------ those there are


def timelines_answer(timelines: Iterable[NamedTimeline]) -> Answer:
    columns = ("timeline", "id", "of", "tables", "days", "size", "made", "by", "last change")
    rows = [
        (
            shown_name(each.name),
            None if each.id == each.name else Id(each.id),
            "a campaign" if is_of_campaign(each.name) else _of_version(each),
            len(each.days),
            each.count_of_days,
            size(each.size),
            each.made_at,
            each.by,
            each.change,
        )
        for each in timelines
    ]
    table = Grid("timelines", columns, rows, drop=("by", "made", "tables", "size"))
    if rows:
        return Answer(parts=(table,))
    return Answer(parts=(table, Line("There is no timeline.", do="backfill timeline create NAME")))


def _of_version(timeline: NamedTimeline) -> str:
    of = timeline.of_version
    return f"{of.step} {of.version}{', kept fresh' if of.fresh else ''}" if of else ""


# ------------------------------------------------------------------ one of them


def timeline_answer(found: FoundTimeline) -> Answer:
    timeline = found.timeline
    return Answer(
        parts=(*_facts(timeline), *_version(found), _tables(found), *_lacks(timeline, found.stale)),
        next=(*next_for_stale(timeline, found.stale), *_next(timeline)),
    )


def _facts(timeline: NamedTimeline) -> Iterator[Fact]:
    yield Fact("timeline", shown_name(timeline.name))
    yield Fact("id", Id(timeline.id))
    yield Fact("made", timeline.made_at)
    yield Fact("by", timeline.by or "unknown")
    yield Fact("last change", timeline.change)
    yield Fact("as of entry", timeline.base.sequence)
    if timeline.moment:
        yield Fact("moment", timeline.moment)
        yield Fact("rewound", list(timeline.targets))
    if timeline.versions:
        yield Fact("versions", dict(timeline.versions))
    if timeline.keep_until is not None:
        yield Fact("kept until", timeline.keep_until)
    yield Fact("days", timeline.count_of_days)
    yield Fact("size", size(timeline.size))


def _version(found: FoundTimeline) -> Iterator[Fact]:
    if (of := found.timeline.of_version) is not None:
        yield Fact("step", of.step)
        yield Fact("version", of.version)
        yield Fact("fresh", of.fresh)
        if of.days:
            yield Fact("of days", of.days)
        if found.behind is not None:
            yield Fact("days behind", found.behind)


def _tables(found: FoundTimeline) -> Grid:
    columns = ("table", "days", "rows", "differ from main", "version", "which days")
    rows = [_row(table, found.timeline.held(table), found.main) for table in found.timeline.days]
    return Grid("tables", columns, rows, drop=("version",))


def _row(table: str, own: dict[date, DayRecord], main: DayRecords) -> tuple[object, ...]:
    contents = [held.content for held in own.values() if held.content]
    differ = differing({table: own}, {table: main.get(table, {})})[table] & own.keys()
    versions = ", ".join(sorted({content.code_version for content in contents}))
    return table, len(own), sum(content.rows for content in contents), len(differ), versions, Days.of(own)


def _lacks(timeline: NamedTimeline, stale: StaleDays, new: TimelineBuilt | None = None) -> Iterator[Part]:
    if timeline.held_back:
        yield Fact("held back", list(timeline.held_back))
    if timeline.read_up_to:
        yield Fact("read by then", list(timeline.read_up_to))
    if timeline.moment_reads:
        yield Fact("raw", raw_since(timeline, new))
    if stale:
        rows = [(table, Days.of(days), why) for table, days, why in stale_ranges(stale)]
        yield Grid("stale", ("table", "days", "why"), rows, title=f"Stale on {shown_name(timeline.name)}")


def _next(timeline: NamedTimeline) -> tuple[str, ...]:
    name = timeline.name
    if is_of_campaign(name):
        return (f"backfill diff {shown_name(name)}",)
    if timeline.of_version:
        return (f"backfill timeline forward {name}", f"backfill timeline publish {name} --as-current")
    if not timeline.days:
        return (f"backfill run TABLE --days A..B --on {name}",)
    if not timeline.versions:
        return (f"backfill timeline forward {name}", f"backfill diff main {name}")
    return (f"backfill diff main {name}", f"backfill timeline publish {name}")


def raw_since(timeline: NamedTimeline, new: TimelineBuilt | None = None) -> list[Worded]:
    """Raw at the timeline's moment and now, and rows since; with ``new`` also since it last went forward."""
    now = {each.table: each for each in timeline.reads}
    last = new.arrived.since_last if new is not None else {}
    return [
        raw_since_then(each, now.get(each.table), timeline.arrived.get(each.table, ()), last.get(each.table, ()))
        for each in timeline.moment_reads
    ]


def raw_since_then(
    then: RawRead, now: RawRead | None, arrived: Sequence[ArrivedRows], since_last: Sequence[ArrivedRows] = ()
) -> Worded:
    values = {
        "then": then.model_dump(mode="json"),
        "now": now.model_dump(mode="json") if now else None,
        "arrived": [each.model_dump(mode="json") for each in arrived],
        "arrived_since_last": [each.model_dump(mode="json") for each in since_last],
    }
    words = f"{then.table}: {format_count(then.rows, 'row')} at its moment, version {then.version}"
    if now is not None and now.version != then.version:
        words += f"; {_arrived(arrived)}; {now.rows:,} in version {now.version}"
    return Worded(values, words)


def _arrived(arrived: Sequence[ArrivedRows]) -> str:
    rows = sum(each.rows for each in arrived if each.rows is not None)
    unknown = [each.day for each in arrived if each.rows is None]
    on = f" on {format_ranges([each.day for each in arrived], _MOST_RANGES)}" if arrived else ""
    foreign = f"; of {format_ranges(unknown, _MOST_RANGES)} it is not known, they have a foreign write"
    return f"{format_count(rows, 'row')} since{on}{foreign if unknown else ''}"


# ------------------------------------------------------------------ what was done


def built_answer(done: TimelineBuilt, stale: StaleDays) -> Answer:
    timeline = done.timeline
    columns = ("table", "version", "kept", "from main", "staged", "held back", "rows", "seconds")
    rows = [
        (
            each.step,
            each.version,
            *map(Days.of, (each.kept, each.from_main, each.staged, sorted({held.day for held in each.held_back}))),
            each.rows,
            each.seconds,
        )
        for each in done.steps
    ]
    return Answer(
        parts=(
            Fact("timeline", timeline.name),
            Fact("revision", timeline.revision),
            Grid("steps", columns, rows, drop=("seconds", "rows", "version")),
            *_why_nothing(done),
            *_waiting(done),
            *_lacks(timeline, stale, done),
            Line(_NOTHING_CHANGED),
        ),
        next=(*next_for_stale(timeline, stale), *_next(timeline)),
    )


def _why_nothing(done: TimelineBuilt) -> Iterator[Part]:
    same = "every day was there before, from the same inputs by the same code"
    if done.note or not any(each.staged or each.held_back for each in done.steps):
        yield Line(f"Nothing was computed: {done.note or same}.")


def _waiting(done: TimelineBuilt) -> Iterator[Part]:
    if done.arrived.waiting:
        rows = [(table, Days.of(days)) for table, days in done.arrived.waiting.items()]
        yield Grid("waiting", ("table", "days"), rows, title="As main has them: it has not taken in what arrived")


def as_current_answer(plan: SwitchPlan) -> Answer:
    facts = {"timeline": plan.timeline.name, "step": plan.step.name, "from": plan.former, "to": plan.version}
    parts: list[Part] = [Fact(name, value) for name, value in facts.items()]
    parts.append(Fact("new days only", plan.new_days_only))
    if plan.new_days_only:
        parts.append(Line("Days that are published keep the version that they were published with."))
    else:
        rows = [
            (each.table, len(each.days), plan.differing[each.table], Days.of(day.day for day in each.days))
            for each in plan.changes
        ]
        parts.append(Grid("changes", ("table", "days", "with other rows", "which days"), rows))
    if plan.leaves_stale:
        stale = [(table, Days.of(days)) for table, days in plan.leaves_stale.items()]
        parts.append(Grid("stale", ("table", "days"), stale, title="Stale then, built from what was there before"))
    return Answer(parts=tuple(parts))


def opened_answer(name: str, views: dict[str, str], recipe: Sequence[str]) -> Answer:
    return Answer(
        parts=(Fact("timeline", name),),
        sections=(
            Answer("Spark SQL", tuple(Fact(table, view) for table, view in views.items()), name="views"),
            Answer("Python: pyarrow and DuckDB", tuple(Line(line, Tone.PLAIN) for line in recipe), name="python"),
        ),
    )


# ------------------------------------------------------------------ the moments worth going to


def _changed(moment: MomentWorthGoingTo) -> Worded:
    gate = moment.failed
    if gate is not None:
        values = {"table": gate.table, "first_bad_day": str(gate.first_bad_day), "days": gate.days, "why": gate.why}
    else:
        values = {table: _changed_table(moment, table, days) for table, days in moment.changed.items()}
    return Worded(values, what_changed(moment))


def _changed_table(moment: MomentWorthGoingTo, table: str, days: int) -> dict[str, object]:
    columns, switch = moment.columns.get(table), moment.switched.get(table)
    return {
        "days": days,
        "versions": list(moment.versions[table]),
        **({"version_before": switch[0]} if switch else {}),
        **({"columns": asdict(columns)} if columns else {}),
    }


def moments_answer(found: Sequence[MomentWorthGoingTo], tables: Iterable[str]) -> Answer:
    columns = ("publication", "at", "by", "kind", "changed")
    rows = [(Id(each.publication), each.at, each.by, ", ".join(each.kinds), _changed(each)) for each in found]
    table = Grid("moments", columns, rows, drop=("kind",))
    if not rows:
        return Answer(parts=(table, Line("Nothing of these tables was published yet.")))
    gate = "Beside a failed gate is the publication that was the newest then."
    words = [Line(gate)] if any(each.failed for each in found) else []
    asked, newest = " ".join(tables), rows[0][0].text
    return Answer(
        parts=(table, *words),
        next=(
            f"backfill timeline rewind {asked} --to {newest}",
            f"backfill timeline rewind {asked} --to {newest}^     the state just before it",
        ),
    )
