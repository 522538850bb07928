"""``backfill status``: which days of which tables are fresh, stale, missing or a foreign write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_days, complete_table, complete_timeline
from backfill_assets.cli.ids import Show, find_timeline, plans, short_ids, typed_storage
from backfill_assets.cli.on_timeline import observe_timeline
from backfill_assets.cli.output import moment, ranges, say, say_json, say_lines
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.queries.campaign_table import campaign_json, campaign_table, say_next
from backfill_assets.cli.queries.show import DAMAGED
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange, TableDay, contiguous
from backfill_assets.errors import BackfillError
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.campaign.day_outcomes import CampaignDays
    from backfill_assets.cli.on_timeline import ObservedTimeline
    from backfill_assets.lakehouse.plans import PlanUnderWay
    from backfill_assets.lakehouse.records import DayContent
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.plan.status import Statuses
    from backfill_assets.published.observed import LogView
    from backfill_assets.upkeep.rejected_days import RejectedRows

_MOST_DAMAGED = 5
_COLOURS = {"fresh": "green", "damaged": "bold red", "missing": "red", "foreign write": "magenta"}
_EPILOG = """
\b
Examples:
  backfill status                                              every table, all known days
  backfill status fact_daily_revenue                           one table, day by day
  backfill status fact_daily_revenue report_store_ranking      several
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
    notes: Sequence[str] = ()
    """Steps whose current version is not the declared one."""
    place: ObservedTimeline | None = None
    """The timeline that the days are shown of; None for main."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The current version, by table; of raw tables none."""
    damaged: Mapping[TableDay, Sequence[str]] = field(default_factory=dict)
    """Days that were seen without their files, and these files: no log shows it."""
    rejected: Sequence[RejectedRows] = ()
    """What published days lack, by source."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """By quarantine table, the commonest of the worst day; on a timeline they are not read."""

    def status_of(self, table: str, day: date) -> str:
        return DAMAGED if TableDay(table, day) in self.damaged else self.statuses[table][day].value

    def ranges_by_status(self, table: str) -> Mapping[str, list[DayRange]]:
        """Damaged days first, then as :func:`plan.status.ranges_by_status` has them."""
        from backfill_assets.plan.status import ranges_by_status

        gone = [day for day in self.statuses[table] if TableDay(table, day) in self.damaged]
        whole = {day: status for day, status in self.statuses[table].items() if day not in gone}
        others = {status.value: days for status, days in ranges_by_status(whole).items()}
        return {**({DAMAGED: contiguous(gone)} if gone else {}), **others}


@click.command(epilog=_EPILOG)
@click.argument("tables", shell_complete=complete_table, nargs=-1)
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    help="Only these days.  [default: all known days]",
)
@click.option(
    "--on", "name", shell_complete=complete_timeline, metavar="NAME", help="Show the days as they are on this timeline."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(tables: tuple[str, ...], days_text: str | None, name: str | None, as_json: bool) -> None:
    """Show which days of TABLES, or of every table, are fresh, stale, missing or changed by a foreign write.

    Tables that are named are shown day by day.

    A foreign write is one by a writer other than this project. Reads the publication log and the Delta logs only: no
    data is read but the reasons of rejected rows, and Spark is not started. The exit code is 0 for every status.

    A day may pass its gates and lack rows, those that were rejected: the worst day of each source is named.

    On a timeline, a day is one of its own or reads through to its base, and is compared with what it would be built
    from there.
    """
    days = DayRange.parse(days_text) if days_text else None
    chosen = tuple(dict.fromkeys(tables))
    found = _look(chosen, days) if name is None else _look_on(find_timeline(typed_storage(), name), chosen, days)
    if as_json:
        say_json(_as_json(found, chosen))
        return
    if found.place is not None:
        _say_place(found.place)
    _say_open(found.observed)
    _say_under_way(found.under_way, found.campaigns)
    say(*(Text(note, "yellow") for note in found.notes))
    if not any(found.statuses.values()):
        say(f"Nothing was published in {found.lakehouse} yet.")
    else:
        show = short_ids(typed_storage())
        for table in chosen:
            _say_days(found, table, show)
        _say_summary(found)
        _say_damaged(found)
        _say_rejected(found)


def _look(tables: Sequence[str], days: DayRange | None) -> _Found:
    from backfill_assets.lakehouse.plans import under_way
    from backfill_assets.model.current_versions import switch_notes
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.damage import damaged_days
    from backfill_assets.published.observed import observe
    from backfill_assets.published.standing import gc_paused
    from backfill_assets.upkeep.rejected_days import commonest_reason

    for table in tables:
        current_catalog().table(table)
    settings, declared = current_settings(), current_catalog().steps
    storage = open_storage(settings)
    with gc_paused():
        observed = observe(storage, current_catalog().table_names)
        steps = observed.with_current(declared)
        statuses = day_statuses(steps, observed, days)
    open_plans = [
        each for each in under_way(storage) if not tables or each.damage or not set(tables).isdisjoint(each.tables)
    ]
    rejected = _rejected(observed, tables, days)
    return _Found(
        lakehouse=str(settings.lakehouse),
        rejected=rejected,
        reasons={
            each.quarantine: commonest_reason(storage, observed.versions[each.quarantine], each.quarantine, each.worst)
            for each in rejected
        },
        statuses={name: by_day for name, by_day in statuses.items() if not tables or name in tables},
        observed=observed,
        under_way=open_plans,
        campaigns={each.plan: _campaign_days(storage, each.plan, tables) for each in open_plans},
        damaged=damaged_days(storage, observed.versions),
        versions={name: step.current for step in steps if not step.source for name in step.table_names},
        notes=switch_notes(
            [step for step in declared if not tables or not set(tables).isdisjoint(step.table_names)], observed.switches
        ),
    )


def _look_on(name: str, tables: Sequence[str], days: DayRange | None) -> _Found:
    from backfill_assets.plan.status import day_statuses

    for table in tables:
        current_catalog().table(table)
    settings = current_settings()
    place = observe_timeline(settings, name)
    statuses = day_statuses(place.view.with_current(current_catalog().steps), place.view, days)
    chosen = {each: by_day for each, by_day in statuses.items() if not tables or each in tables}
    rejected = _rejected(place.view, tables, days)
    return _Found(str(settings.lakehouse), chosen, place.view, (), {}, place=place, rejected=rejected)


def _rejected(observed: LogView, tables: Sequence[str], days: DayRange | None) -> list[RejectedRows]:
    """What the sources of ``tables`` lack, and those of all that they are made of."""
    from backfill_assets.model.graph import expand_tables, steps_of
    from backfill_assets.upkeep.rejected_days import rejected_rows

    steps = current_catalog().steps
    shown = steps_of(steps, expand_tables(steps, tables, upstream=True)) if tables else steps
    states = {key: state for key, state in observed.states.items() if days is None or key.day in days}
    return rejected_rows(shown, states)


def _campaign_days(storage: Storage, plan: str, tables: Sequence[str]) -> list[CampaignDays]:
    from backfill_assets.campaign.day_outcomes import campaign_days
    from backfill_assets.lakehouse.plans import kept_plan, plan_ids
    from backfill_assets.plan.records import Plan

    if plan not in plan_ids(storage):
        return []  # The plan was removed: the command still shows what is published.
    try:
        found = campaign_days(storage, Plan.from_json(kept_plan(storage, plan), id=plan))
    except BackfillError:
        return []  # Of other code, or damaged: so is what is published then.
    return [each for each in found if not tables or each.table in tables]


def _say_open(observed: LogView) -> None:
    if observed.open:
        names = ", ".join(map(short_ids(typed_storage()), observed.open))
        say(Text(f"Under way: {names}. The next run or rollback finishes what a dead process left.", "yellow"))


def _say_under_way(found: Sequence[PlanUnderWay], campaigns: Mapping[str, Sequence[CampaignDays]]) -> None:
    show = short_ids(typed_storage(), plans) if found else str
    for each in found:
        tables = ", ".join(each.tables) or "tables that are unknown"
        say(Text(f"A campaign is under way since {moment(each.since)} on {tables}: {show(each.plan)}.", "yellow"))
        if each.damage:
            say_lines(each.damage)
        if days := campaigns.get(each.plan):
            say(campaign_table(days))
            say_next(typed_storage(), each.plan)


def _say_place(place: ObservedTimeline) -> None:
    say(
        f"On the timeline {place.timeline.name}: its own days, and all others as of entry "
        f"{place.timeline.base.sequence} of the publication log."
    )


def _say_summary(found: _Found) -> None:
    place, columns = found.place, ["table", "status", "days", "which days"]
    rows = new_table(*columns, *(["of its own"] if place else []), numbers=["days"], groups=["table"])
    for name, by_day in found.statuses.items():
        for status, days in found.ranges_by_status(name).items():
            own = [ranges(day for each in days for day in each if day in place.own(name))] if place else []
            rows.add_row(name, _in_colour(status), f"{sum(map(len, days)):,}", ranges(days), *own)
        if not by_day:
            rows.add_row(name, Text("nothing published", "dim"), "0", "", *([""] if place else []))
        rows.add_section()
    say(rows)


def _say_damaged(found: _Found) -> None:
    shown = [key for key in found.damaged if key.day in found.statuses.get(key.table, {})]
    for table, day in shown[:_MOST_DAMAGED]:
        say(Text(f"{table} {day} is damaged: files are gone. backfill show {table} --day {day} says what to do", "red"))


def _say_rejected(found: _Found) -> None:
    for each in found.rejected:
        look = f"backfill quarantine list {each.quarantine} --days {each.worst}"
        say(Text(f"{each.sentence(found.reasons.get(each.quarantine, ''))}: {look}", "yellow"))


def _say_days(found: _Found, table: str, show: Show) -> None:
    current = f", current version {found.versions[table]}" if table in found.versions else ""
    columns = ("day", "status", "rows", "code", "publication", "checksum")
    rows = new_table(*columns, numbers=["rows"], title=f"{table}{current}", drop=("checksum", "code", "rows"))
    own = found.place.own(table) if found.place else set()
    for day in found.statuses[table]:
        content, publication = _content(found.observed, table, day)
        known = (f"{content.rows:,}", content.code_version) if content else ("", "")
        origin = "of its own" if day in own else show(publication)
        rows.add_row(
            str(day), _in_colour(found.status_of(table, day)), *known, origin, content.checksum if content else ""
        )
    say(rows)


def _content(observed: LogView, table: str, day: date) -> tuple[DayContent | None, str]:
    state = observed.states.get(TableDay(table, day))
    return (state.content, state.publication) if state else (None, "")


def _in_colour(status: str) -> Text:
    return Text(status, _COLOURS.get(status, "yellow"))


def _as_json(found: _Found, chosen: Sequence[str]) -> Mapping[str, Any]:
    tables: dict[str, Any] = {}
    for name, by_day in found.statuses.items():
        grouped = found.ranges_by_status(name)
        tables[name] = {
            "counts": {status: sum(map(len, days)) for status, days in grouped.items()},
            "days": {status: [format_range(item) for item in days] for status, days in grouped.items()},
        }
        if found.place is not None:
            tables[name]["own"] = [format_range(item) for item in contiguous(found.place.own(name) & by_day.keys())]
    for table in chosen:
        tables[table]["current_version"] = found.versions.get(table)
        tables[table]["by_day"] = {str(day): _day_json(found, table, day) for day in found.statuses[table]}
    campaigns = [
        {
            "plan": each.plan,
            "tables": each.tables,
            "since": moment(each.since),
            "days": campaign_json(found.campaigns[each.plan]),
            **({"damage": each.damage} if each.damage else {}),
        }
        for each in found.under_way
    ]
    place = {"timeline": found.place.timeline.name, "base": found.place.timeline.base.sequence} if found.place else {}
    return {
        "lakehouse": found.lakehouse,
        **place,
        "open_publications": list(found.observed.open),
        "current_versions": dict(found.observed.switches),
        "under_way": campaigns,
        "rejected": {each.table: _rejected_json(each, found.reasons) for each in found.rejected},
        "tables": tables,
    }


def _rejected_json(rows: RejectedRows, reasons: Mapping[str, str]) -> Mapping[str, Any]:
    return {
        "received": rows.received_in_all,
        "rejected": sum(rows.rejected.values()),
        "days": {str(day): {"received": rows.received[day], "rejected": count} for day, count in rows.rejected.items()},
        "worst": str(rows.worst),
        "commonest_reason": reasons.get(rows.quarantine, ""),
    }


def _day_json(found: _Found, table: str, day: date) -> Mapping[str, Any]:
    content, publication = _content(found.observed, table, day)
    found_day: dict[str, Any] = {"status": found.status_of(table, day), "publication": publication or None}
    if found.place is not None:
        found_day["own"] = day in found.place.own(table)
    if content is None:
        return found_day
    return {**found_day, "rows": content.rows, "checksum": content.checksum, "code_version": content.code_version}
