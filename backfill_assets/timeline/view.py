"""What a timeline looks like to those who decide by the logs: its own days over the state of its base.

A day that was computed from other days than the timeline shows is stale. The timeline of a campaign is found like any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of, plan_of
from backfill_assets.lakehouse.fingerprints import has_rows
from backfill_assets.lakehouse.named_timelines import NamedTimeline, find_timeline, kept_timelines
from backfill_assets.lakehouse.plans import PlanUnderWay, under_way
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, newest_days
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import Filled, read_by_any, reading, steps_of, tables_as_of
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import decide
from backfill_assets.state.observed import LogView, gc_paused
from backfill_assets.state.reading import read_switches
from backfill_assets.state.view import View, differing
from backfill_assets.text import format_range, format_ranges, suggest_or_list


def all_places(storage: Storage, now: datetime) -> list[NamedTimeline]:
    """The timelines that are kept, by name, and then those of open campaigns."""
    return [*kept_timelines(storage, now), *(_of_campaign(storage, each) for each in under_way(storage))]


def find_place(storage: Storage, name: str, now: datetime) -> NamedTimeline:
    """The timeline ``name``, or that of the open campaign ``name``; raises :class:`InvalidRequest` with the nearest."""
    if not is_of_campaign(name):
        return find_timeline(storage, name, now)
    plans = {campaign_of(each.plan): each for each in under_way(storage)}
    if name not in plans:
        raise InvalidRequest(
            f"There is no open campaign {plan_of(name)!r}.",
            hint=suggest_or_list(plan_of(name), [each.plan for each in plans.values()], "Open campaigns"),
        )
    return _of_campaign(storage, plans[name])


def is_of_campaign(name: str) -> bool:
    return name.startswith(CAMPAIGN)


def refuse_campaign(name: str) -> None:
    """Raise :class:`InvalidRequest` for the timeline of a campaign: nothing else changes it."""
    if is_of_campaign(name):
        raise InvalidRequest(
            f"{plan_of(name)} is a campaign: only the campaign changes it.",
            hint=f"It goes with the campaign: backfill timeline delete {plan_of(name)}. "
            "For days of your own: backfill timeline create NAME",
        )


def _of_campaign(storage: Storage, plan: PlanUnderWay) -> NamedTimeline:
    campaign, base = campaign_of(plan.plan), View.newest(storage)
    staged = {
        table: {day: each.record for day, each in newest_days(storage, table, campaign).items() if each.record}
        for table in plan.tables
    }
    timeline = NamedTimeline(
        id=campaign,
        name=campaign,
        made_at=plan.since,
        base=base.base,
        change="staged by the campaign",
        changed_at=plan.since,
    )
    return timeline.with_days(staged)


StaleDays = Mapping[str, Mapping[date, str]]
"""By table and day, why a day is stale: a clause that follows the day."""
_MOST_RANGES = 3


# ------------------------------------------------------------------ stale days


def inputs_shown(
    step: Step, version: Version, days: Sequence[date], shown: DayRecords
) -> dict[date, decide.InputFingerprint]:
    """What ``days`` would be computed from by ``version`` if everything is as ``shown``."""
    logicals = {
        table: {day: (shown.get(table, {}).get(day) or DayRecord(day=day)).logical for day in read}
        for table, read in decide.read_days(step, version, days).items()
    }
    return decide.wanted(step, version, days, logicals)


def made_of(step: Step, contents: Mapping[date, DayContent], shown: DayRecords) -> set[date]:
    """Those of the days that were computed from just what is ``shown``.

    A version that is not declared any more may have read what any other one reads: the fingerprint of the inputs
    names tables and days. Days that were taken over with their table were made of nothing else.
    """
    declared = {version.name for version in step.versions}
    found = {day for day, each in contents.items() if each.is_adopted}
    for version in step.versions:
        asked = {day: each for day, each in contents.items() if day not in found}
        days = [day for day, each in asked.items() if each.code_version not in declared - {version.name}]
        inputs = inputs_shown(step, version, days, shown)
        found |= {day for day in days if inputs[day].inputs == contents[day].inputs}
    return found


def filled_in_records(steps: Iterable[Step], shown: DayRecords) -> Filled:
    """The days with rows of what ``steps`` read as of a day."""
    found = {table: shown.get(table, {}).items() for table in tables_as_of(steps)}
    return {table: sorted(day for day, each in days if has_rows(each.logical)) for table, days in found.items()}


def tables_around(steps: Iterable[Step], tables: Collection[str]) -> set[str]:
    """``tables`` and those that read them, and all that one of these reads, by any version."""
    reads = {step.name: {read.table for version in step.versions for read in version.reads} for step in steps}
    around = [step for step in steps if not reads[step.name].union(step.table_names).isdisjoint(tables)]
    return {name for step in around for name in (*step.table_names, *reads[step.name])}


def stale_days(steps: Sequence[Step], timeline: NamedTimeline, base: DayRecords) -> StaleDays:
    """The days that the timeline shows and that were computed from others: its own, and readers of its own.

    ``base`` is what it reads through to, of :func:`tables_around` its own tables.
    """
    own = timeline.records
    shown = {table: {**base.get(table, {}), **own.get(table, {})} for table in {*base, *own}}
    changed = differing(shown, base)
    found: dict[str, dict[date, str]] = {}
    for step in (each for each in steps_of(steps, shown) if each.source is None):
        days = {day for name in step.table_names for day in own.get(name, ())}
        filled = filled_in_records([step], shown)
        days |= {day for version in step.versions for day in reading(step, changed, version, filled)}
        for name in step.table_names:
            held = {day: shown[name][day] for day in sorted(days) if day in shown.get(name, {})}
            contents = {day: each.content for day, each in held.items() if each.content is not None}
            stale = contents.keys() - made_of(step, contents, shown)
            if stale:
                found[name] = {day: _why_stale(step, day, timeline, base) for day in sorted(stale)}
    return found


def _why_stale(step: Step, day: date, timeline: NamedTimeline, base: DayRecords) -> str:
    read = read_by_any([(step, [day])], filled_in_records([step], {**base, **timeline.records}))
    own = {table: days & timeline.held(table).keys() for table, days in read.items()}
    through = {table: days & base.get(table, {}).keys() - own[table] for table, days in read.items()}
    torn = [table for table in read if own[table] and through[table]]
    if timeline.moment and not timeline.versions and torn:
        return f"reads days of two moments of {', '.join(torn)}"
    others = [table for table in read if own[table]] or list(read)
    return f"was computed from other days of {', '.join(others)} than the timeline shows"


def stale_ranges(stale: StaleDays) -> list[tuple[str, list[date], str]]:
    """Each table with its days that are stale for one reason, and the reason."""
    return [
        (table, [day for day, each in days.items() if each == why], why)
        for table, days in stale.items()
        for why in dict.fromkeys(days.values())
    ]


def stale_lines(timeline: NamedTimeline, stale: StaleDays) -> list[str]:
    """A line for the days of each table that are stale for one reason."""
    return [
        f"stale on {timeline.name}: {table} {format_ranges(days, _MOST_RANGES)} {why}"
        for table, days, why in stale_ranges(stale)
    ]


def next_for_stale(timeline: NamedTimeline, stale: StaleDays) -> list[str]:
    """The commands that compute them: those that are the timeline's own go forward with it."""
    own = [table for table, days in stale.items() if days.keys() & timeline.held(table).keys()]
    through = {table: days.keys() - timeline.held(table).keys() for table, days in stale.items()}
    runs = [
        f"backfill run {table} --days {format_range(DayRange(min(days), max(days)))} --on {timeline.name}"
        for table, days in through.items()
        if days
    ]
    return [*([f"backfill timeline forward {timeline.name}"] if own else []), *runs]


# ------------------------------------------------------------------ a timeline as if it were main


@dataclass(frozen=True)
class ObservedTimeline:
    """A timeline, and what the logs would say if it were main."""

    timeline: NamedTimeline
    view: LogView

    def own(self, table: str) -> set[date]:
        return set(self.timeline.held(table))


def observe_timeline(publisher: Publisher, tables: Iterable[str], name: str) -> ObservedTimeline:
    """``tables`` as the timeline ``name`` has them; raises :class:`InvalidRequest` if there is no such timeline."""
    found = find_place(publisher.storage, name, clock.now())
    with gc_paused():
        observed = View.of(publisher.storage, found).observed(tables)
    # Which version is current is of now, also on an old base: another one is asked for by its name.
    return ObservedTimeline(found, replace(observed, switches=read_switches(publisher.storage)))
