"""A timeline as logs show it: own days over its base."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.campaign_journal import campaign_of, plan_of
from backfill_assets.lakehouse.fingerprints import has_rows
from backfill_assets.lakehouse.named_timelines import NamedTimeline, find_timeline, kept_timelines
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import CAMPAIGN, newest_days
from backfill_assets.model.declaration import Step, Version
from backfill_assets.model.graph import Filled, read_by_any, reading, steps_of, tables_as_of
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.rebuild import decide
from backfill_assets.state.campaigns import PlanUnderWay, under_way
from backfill_assets.state.observed import LogView, gc_paused
from backfill_assets.state.reading import read_switches
from backfill_assets.state.view import View, differing
from backfill_assets.text import format_range, format_ranges, suggest_or_list


def all_places(storage: Storage, now: datetime) -> list[NamedTimeline]:
    campaigns = under_way(PublicationLog(storage))
    return [*kept_timelines(storage, now), *(_of_campaign(storage, each) for each in campaigns)]


def find_place(storage: Storage, name: str, now: datetime) -> NamedTimeline:
    """Also finds open campaigns; raises :class:`InvalidRequest` with the nearest name."""
    if not is_of_campaign(name):
        return find_timeline(storage, name, now)
    plans = {campaign_of(each.plan): each for each in under_way(PublicationLog(storage))}
    if name not in plans:
        raise InvalidRequest(
            f"There is no open campaign {plan_of(name)!r}.",
            hint=suggest_or_list(plan_of(name), [each.plan for each in plans.values()], "Open campaigns"),
        )
    return _of_campaign(storage, plans[name])


def is_of_campaign(name: str) -> bool:
    return name.startswith(CAMPAIGN)


def refuse_campaign(name: str) -> None:
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
_MOST_RANGES = 3


# ------------------------------------------------------------------ stale days


def inputs_shown(
    step: Step, version: Version, days: Sequence[date], shown: DayRecords
) -> dict[date, decide.InputFingerprint]:
    logicals = {
        table: {day: (shown.get(table, {}).get(day) or DayRecord(day=day)).logical for day in read}
        for table, read in decide.read_days(step, version, days).items()
    }
    return decide.wanted(step, version, days, logicals)


def made_of(step: Step, contents: Mapping[date, DayContent], shown: DayRecords) -> set[date]:
    """Days computed from exactly what is ``shown``; adopted days too. With an undeclared version, each declared one is
    tried: the fingerprint names tables and days.
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
    found = {table: shown.get(table, {}).items() for table in tables_as_of(steps)}
    return {table: sorted(day for day, each in days if has_rows(each.logical)) for table, days in found.items()}


def tables_around(steps: Iterable[Step], tables: Collection[str]) -> set[str]:
    reads = {step.name: {read.table for version in step.versions for read in version.reads} for step in steps}
    around = [step for step in steps if not reads[step.name].union(step.table_names).isdisjoint(tables)]
    return {name for step in around for name in (*step.table_names, *reads[step.name])}


def stale_days(storage: Storage, timeline: NamedTimeline, steps: Sequence[Step]) -> StaleDays:
    around = tables_around(steps, timeline.days)
    return stale_over(steps, timeline, View.at(storage, timeline.base).records(around))


def stale_over(steps: Sequence[Step], timeline: NamedTimeline, base: DayRecords) -> StaleDays:
    """``base`` has the :func:`tables_around` the timeline's own. Pure."""
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
    return [
        (table, [day for day, each in days.items() if each == why], why)
        for table, days in stale.items()
        for why in dict.fromkeys(days.values())
    ]


def stale_lines(timeline: NamedTimeline, stale: StaleDays) -> list[str]:
    return [
        f"stale on {timeline.name}: {table} {format_ranges(days, _MOST_RANGES)} {why}"
        for table, days, why in stale_ranges(stale)
    ]


def next_for_stale(timeline: NamedTimeline, stale: StaleDays) -> list[str]:
    own = [table for table, days in stale.items() if days.keys() & timeline.held(table).keys()]
    through = {table: days.keys() - timeline.held(table).keys() for table, days in stale.items()}
    runs = [
        f"backfill run {table} --days {format_range(DayRange(min(days), max(days)))} --on {timeline.name}"
        for table, days in through.items()
        if days
    ]
    return [*([f"backfill timeline forward {timeline.name}"] if own else []), *runs]


# ------------------------------------------------------------------ a timeline as if it were main


def observe_timeline(publisher: Publisher, tables: Iterable[str], name: str) -> tuple[NamedTimeline, LogView]:
    found = find_place(publisher.storage, name, clock.now())
    with gc_paused():
        observed = View.of(publisher.storage, found).observed(tables)
    # Current versions are today's, even on an old base.
    return found, replace(observed, switches=read_switches(publisher.storage))
