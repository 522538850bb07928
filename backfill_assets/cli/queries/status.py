"""``backfill status``: which days of which tables are fresh, stale, missing or a foreign write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.on_timeline import observe_timeline
from backfill_assets.cli.output import moment, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.queries.campaign_table import campaign_json, campaign_table
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.days import DayRange, TableDay, contiguous
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.campaign.day_outcomes import CampaignDays
    from backfill_assets.cli.on_timeline import ObservedTimeline
    from backfill_assets.lakehouse.plans import PlanUnderWay
    from backfill_assets.lakehouse.records import DayContent
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.status import DayStatus, Statuses
    from backfill_assets.published.observed import LogView

_COLOURS = {"fresh": "green", "missing": "red", "foreign write": "magenta"}
_EPILOG = """
\b
Examples:
  backfill status                                              every table, all known days
  backfill status fact_daily_revenue                           one table, day by day
  backfill status --days 2017-03-01..2017-05-29
  backfill status fact_daily_revenue --days 2017-03-01 --json
  backfill status fact_daily_revenue --on trial                as the days are on a timeline
"""


@dataclass(frozen=True)
class _Found:
    """What the command prints, for people or for scripts."""

    lakehouse: str
    statuses: Statuses
    observed: LogView
    under_way: Sequence[PlanUnderWay]
    campaigns: Mapping[str, Sequence[CampaignDays]]
    """By plan: the state of the days that it will publish."""
    place: ObservedTimeline | None = None
    """The timeline that the days are shown of; None for main."""


@click.command(epilog=_EPILOG)
@click.argument("table", required=False)
@click.option("--days", "days_text", metavar="A..B", help="Only these days.  [default: all known days]")
@click.option("--on", "name", metavar="NAME", help="Show the days as they are on this timeline.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(table: str | None, days_text: str | None, name: str | None, as_json: bool) -> None:
    """Show which days of every table are fresh, stale, missing or changed by a foreign write.

    A foreign write is one by a writer other than this project. Reads the publication log and the Delta logs only: no
    data is read, and Spark is not started. The exit code is 0 for every status.

    On a timeline, a day is one of its own or reads through to its base, and is compared with what it would be built
    from there.
    """
    days = DayRange.parse(days_text) if days_text else None
    found = _look(table, days) if name is None else _look_on(name, table, days)
    if as_json:
        say_json(_as_json(found, table))
        return
    if found.place is not None:
        _say_place(found.place)
    _say_open(found.observed)
    _say_under_way(found.under_way, found.campaigns)
    if not any(found.statuses.values()):
        say(f"Nothing was published in {found.lakehouse} yet.")
    elif table is None:
        _say_summary(found)
    else:
        _say_days(found, table)
        _say_summary(found)


def _look(table: str | None, days: DayRange | None) -> _Found:
    from backfill_assets.datasets import registry
    from backfill_assets.lakehouse.plans import under_way
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe
    from backfill_assets.published.standing import gc_paused

    if table is not None:
        registry.table(table)
    settings = current_settings()
    steps = registry.steps()
    storage = open_storage(settings)
    with gc_paused():
        observed = observe(storage, [t.name for t in registry.tables()])
        statuses = day_statuses(steps, observed, days)
    plans = [each for each in under_way(storage) if table is None or table in each.tables]
    return _Found(
        lakehouse=str(settings.lakehouse),
        statuses={name: by_day for name, by_day in statuses.items() if table in (None, name)},
        observed=observed,
        under_way=plans,
        campaigns={each.plan: _campaign_days(storage, each.plan, table) for each in plans},
    )


def _look_on(name: str, table: str | None, days: DayRange | None) -> _Found:
    from backfill_assets.datasets import registry
    from backfill_assets.plan.status import day_statuses

    if table is not None:
        registry.table(table)
    settings = current_settings()
    place = observe_timeline(settings, name)
    statuses = day_statuses(registry.steps(), place.view, days)
    chosen = {each: by_day for each, by_day in statuses.items() if table in (None, each)}
    return _Found(str(settings.lakehouse), chosen, place.view, (), {}, place)


def _campaign_days(storage: Storage, plan: str, table: str | None) -> list[CampaignDays]:
    from backfill_assets.campaign.day_outcomes import campaign_days
    from backfill_assets.lakehouse.plans import kept_plan, plan_ids
    from backfill_assets.plan.records import Plan

    if plan not in plan_ids(storage):
        return []  # The plan was removed: the command still shows what is published.
    found = campaign_days(storage, Plan.from_json(kept_plan(storage, plan), id=plan))
    return [each for each in found if table in (None, each.table)]


def _say_open(observed: LogView) -> None:
    if observed.open:
        names = ", ".join(observed.open)
        say(Text(f"Under way: {names}. The next run or rollback finishes what a dead process left.", "yellow"))


def _say_under_way(found: Sequence[PlanUnderWay], campaigns: Mapping[str, Sequence[CampaignDays]]) -> None:
    for each in found:
        tables = ", ".join(each.tables)
        say(Text(f"A campaign is under way since {moment(each.since)} on {tables}: {each.plan}.", "yellow"))
        if days := campaigns.get(each.plan):
            say(campaign_table(days))


def _say_place(place: ObservedTimeline) -> None:
    say(
        f"On the timeline {place.timeline.name}: its own days, and all others as of entry "
        f"{place.timeline.base.sequence} of the publication log."
    )


def _say_summary(found: _Found) -> None:
    from backfill_assets.plan.status import ranges_by_status

    place, columns = found.place, ["table", "status", "days", "which"]
    rows = new_table(*columns, *(["of its own"] if place else []), numbers=["days"])
    for name, by_day in found.statuses.items():
        title = name
        for status, days in ranges_by_status(by_day).items():
            own = [ranges(day for each in days for day in each if day in place.own(name))] if place else []
            rows.add_row(title, _in_colour(status), f"{sum(map(len, days)):,}", ranges(days), *own)
            title = ""
        if not by_day:
            rows.add_row(title, Text("nothing published", "dim"), "0", "")
        rows.add_section()
    say(rows)


def _say_days(found: _Found, table: str) -> None:
    rows = new_table("day", "status", "rows", "code", "publication", "checksum", numbers=["rows"], title=table)
    own = found.place.own(table) if found.place else set()
    for day, status in found.statuses[table].items():
        content, publication = _content(found.observed, table, day)
        known = (f"{content.rows:,}", content.code_version) if content else ("", "")
        origin = "of its own" if day in own else publication
        rows.add_row(str(day), _in_colour(status), *known, origin, content.checksum if content else "")
    say(rows)


def _content(observed: LogView, table: str, day: date) -> tuple[DayContent | None, str]:
    state = observed.states.get(TableDay(table, day))
    return (state.content, state.publication) if state else (None, "")


def _in_colour(status: DayStatus) -> Text:
    return Text(status.value, _COLOURS.get(status.value, "yellow"))


def _as_json(found: _Found, table: str | None) -> Mapping[str, Any]:
    from backfill_assets.plan.status import ranges_by_status

    tables: dict[str, Any] = {}
    for name, by_day in found.statuses.items():
        grouped = ranges_by_status(by_day)
        tables[name] = {
            "counts": {status.value: sum(map(len, days)) for status, days in grouped.items()},
            "days": {status.value: [format_range(item) for item in days] for status, days in grouped.items()},
        }
        if found.place is not None:
            tables[name]["own"] = [format_range(item) for item in contiguous(found.place.own(name) & by_day.keys())]
    if table is not None:
        tables[table]["by_day"] = {str(day): _day_json(found, table, day) for day in found.statuses[table]}
    campaigns = [
        {
            "plan": each.plan,
            "tables": each.tables,
            "since": moment(each.since),
            "days": campaign_json(found.campaigns[each.plan]),
        }
        for each in found.under_way
    ]
    place = {"timeline": found.place.timeline.name, "base": found.place.timeline.base.sequence} if found.place else {}
    return {
        "lakehouse": found.lakehouse,
        **place,
        "open_publications": list(found.observed.open),
        "under_way": campaigns,
        "tables": tables,
    }


def _day_json(found: _Found, table: str, day: date) -> Mapping[str, Any]:
    content, publication = _content(found.observed, table, day)
    found_day: dict[str, Any] = {"status": found.statuses[table][day].value, "publication": publication or None}
    if found.place is not None:
        found_day["own"] = day in found.place.own(table)
    if content is None:
        return found_day
    return {**found_day, "rows": content.rows, "checksum": content.checksum, "code_version": content.code_version}
