"""``backfill status``: which days of which tables are fresh, stale, missing or a foreign write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.output import moment, ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.queries.campaign_table import campaign_json, campaign_table
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.days import DayRange, TableDay
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.campaign.day_outcomes import CampaignDays
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
    versions: Mapping[str, str] = field(default_factory=dict)
    """The current version, by table; of raw tables none."""


@click.command(epilog=_EPILOG)
@click.argument("table", required=False)
@click.option("--days", "days_text", metavar="A..B", help="Only these days.  [default: all known days]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(table: str | None, days_text: str | None, as_json: bool) -> None:
    """Show which days of every table are fresh, stale, missing or changed by a foreign write.

    A foreign write is one by a writer other than this project. Reads the publication log and the Delta logs only: no
    data is read, and Spark is not started. The exit code is 0 for every status.
    """
    found = _look(table, DayRange.parse(days_text) if days_text else None)
    if as_json:
        say_json(_as_json(found, table))
        return
    _say_open(found.observed)
    _say_under_way(found.under_way, found.campaigns)
    say(*(Text(note, "yellow") for note in found.notes))
    if not any(found.statuses.values()):
        say(f"Nothing was published in {found.lakehouse} yet.")
    elif table is None:
        _say_summary(found.statuses)
    else:
        _say_days(found, table)
        _say_summary(found.statuses)


def _look(table: str | None, days: DayRange | None) -> _Found:
    from backfill_assets.datasets import registry
    from backfill_assets.lakehouse.plans import under_way
    from backfill_assets.model.current_versions import switch_notes
    from backfill_assets.plan.status import day_statuses
    from backfill_assets.published.observed import observe
    from backfill_assets.published.standing import gc_paused

    if table is not None:
        registry.table(table)
    settings, declared = current_settings(), registry.steps()
    storage = open_storage(settings)
    with gc_paused():
        observed = observe(storage, [t.name for t in registry.tables()])
        steps = observed.with_current(declared)
        statuses = day_statuses(steps, observed, days)
    plans = [each for each in under_way(storage) if table is None or table in each.tables]
    return _Found(
        lakehouse=str(settings.lakehouse),
        statuses={name: by_day for name, by_day in statuses.items() if table in (None, name)},
        observed=observed,
        under_way=plans,
        campaigns={each.plan: _campaign_days(storage, each.plan, table) for each in plans},
        versions={name: step.current for step in steps if not step.source for name in step.table_names},
        notes=switch_notes([step for step in declared if table in (None, *step.table_names)], observed.switches),
    )


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


def _say_summary(statuses: Statuses) -> None:
    from backfill_assets.plan.status import ranges_by_status

    rows = new_table("table", "status", "days", "which", numbers=["days"])
    for name, by_day in statuses.items():
        title = name
        for status, found in ranges_by_status(by_day).items():
            rows.add_row(title, _in_colour(status), f"{sum(map(len, found)):,}", ranges(found))
            title = ""
        if not by_day:
            rows.add_row(title, Text("nothing published", "dim"), "0", "")
        rows.add_section()
    say(rows)


def _say_days(found: _Found, table: str) -> None:
    current = f", current version {found.versions[table]}" if table in found.versions else ""
    columns = ("day", "status", "rows", "code", "publication", "checksum")
    rows = new_table(*columns, numbers=["rows"], title=f"{table}{current}")
    for day, status in found.statuses[table].items():
        content, publication = _content(found.observed, table, day)
        known = (f"{content.rows:,}", content.code_version) if content else ("", "")
        rows.add_row(str(day), _in_colour(status), *known, publication, content.checksum if content else "")
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
    if table is not None:
        tables[table]["current_version"] = found.versions.get(table)
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
    return {
        "lakehouse": found.lakehouse,
        "open_publications": list(found.observed.open),
        "current_versions": dict(found.observed.switches),
        "under_way": campaigns,
        "tables": tables,
    }


def _day_json(found: _Found, table: str, day: date) -> Mapping[str, Any]:
    content, publication = _content(found.observed, table, day)
    found_day = {"status": found.statuses[table][day].value, "publication": publication or None}
    if content is None:
        return found_day
    return {**found_day, "rows": content.rows, "checksum": content.checksum, "code_version": content.code_version}
