"""``backfill quarantine replay``: judge rejected rows again by the current contract, and build their days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from backfill_assets.cli.completion import complete_days, complete_table
from backfill_assets.cli.foreground import foreground_builder, report_progress
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError

if TYPE_CHECKING:
    from backfill_assets.landing.quarantine import Rejects
    from backfill_assets.rebuild.builder import Builder
    from backfill_assets.rebuild.outcome import BuildResult
    from backfill_assets.rebuild.replay import Judged
    from backfill_assets.settings import Settings

_EPILOG = """
\b
Examples:
  backfill quarantine replay --dry-run                                    what would a rebuild accept?
  backfill quarantine replay quarantine_sales --days 2017-03-01..2017-03-07
"""
_HINT = (
    "Fix the contract in a new version of the step, or ask the source to land corrected rows as a new file. They are"
    " ingested on the day they arrive, and the old lines stay in quarantine, accounted for."
)


class StillBad(BackfillError):
    """The current contract would accept no quarantined row."""


@click.command(epilog=_EPILOG)
@click.argument("table", shell_complete=complete_table, required=False)
@click.option("--days", "days_text", shell_complete=complete_days, metavar="A..B", help="Only rows of these days.")
@click.option("--dry-run", is_flag=True, help="Show how many rows would be accepted; build nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def replay(table: str | None, days_text: str | None, dry_run: bool, as_json: bool) -> None:
    """Judge rejected rows again by the current contract and code.

    Then builds the days on which some are accepted, as any run does, with everything downstream that reads them: gates
    decide, and every received row stays accounted for. Starts Spark. The exit code is 1 if no row would be accepted.
    """
    from backfill_assets.landing.quarantine import rejects_named

    days = DayRange.parse(days_text) if days_text else None
    rejects = rejects_named(current_catalog(), table)
    with ExitStack() as stack:
        report = _replay(_builder(current_settings(), stack), rejects, days, dry_run, as_json)
    if as_json:
        say_json(report)
    if report["still_bad"] and not report["freed"] and not dry_run:
        raise _still_bad(report)


def _replay(
    builder: Builder, rejects: Sequence[Rejects], days: DayRange | None, dry_run: bool, quiet: bool
) -> dict[str, Any]:
    from backfill_assets.published.reading import anything_published
    from backfill_assets.rebuild.replay import judge_again

    published = anything_published(builder.lake.storage)
    judged = [
        each for one in rejects for each in (judge_again(builder.lake, one, days, report_progress) if published else ())
    ]
    if not quiet:
        _say_judged(judged, days)
    built = [] if dry_run else _rebuild(builder, _freed_days(rejects, judged), quiet)
    return {"judged": [_as_json(each) for each in judged if each.reason], **_totals(judged), "built": built}


def _builder(settings: Settings, stack: ExitStack) -> Builder:
    return foreground_builder(settings, stack)


def _totals(judged: Sequence[Judged]) -> dict[str, int]:
    once = [each for each in judged if each.reason is None]
    return {"freed": sum(each.freed for each in once), "still_bad": sum(each.still_bad for each in once)}


def _freed_days(rejects: Sequence[Rejects], judged: Sequence[Judged]) -> dict[str, list[date]]:
    """The days with freed rows, by the step that rejected them."""
    found = {
        one.step.name: sorted({each.day for each in judged if each.table == one.table and each.freed})
        for one in rejects
    }
    return {name: days for name, days in found.items() if days}


def _still_bad(report: Mapping[str, Any]) -> StillBad:
    reasons: Counter[str] = Counter()
    for each in report["judged"]:
        reasons[each["reason"]] += each["still_bad"]
    listed = "\n".join(f"  {rows:,} x {reason}" for reason, rows in reasons.most_common())
    return StillBad(
        f"None of {report['still_bad']:,} quarantined rows would be accepted; nothing was built.\n{listed}", hint=_HINT
    )


def _rebuild(builder: Builder, freed: Mapping[str, Sequence[date]], quiet: bool) -> list[dict[str, Any]]:
    if not freed:
        return []
    from backfill_assets.rebuild.environment import git_commit
    from backfill_assets.rebuild.outcome import RunInfo
    from backfill_assets.rebuild.person import os_person
    from backfill_assets.rebuild.replay import rebuild

    run = RunInfo(str(uuid4()), git_commit(), f"{os_person().name}: backfill quarantine replay")
    found = []
    for step, result in rebuild(builder, freed, run, report_progress):
        found += _built_json(step.name, result)
        if not quiet:
            _say_built(found[-1])
    return found


def _built_json(step: str, result: BuildResult) -> list[dict[str, Any]]:
    days = sorted({day.day for day in result.days if not day.reused})
    rows = sum(day.rows for day in result.days if day.table == step)
    return [{"step": step, "days": days, "rows": rows, "publications": list(result.publications)}]


def _say_built(built: Mapping[str, Any]) -> None:
    if built["publications"]:
        publications = ", ".join(built["publications"])
        say(f"{built['step']}: {ranges(built['days'])} published, {built['rows']:,} rows ({publications})")
    else:
        say(f"{built['step']}: unchanged")


def _say_judged(judged: Sequence[Judged], days: DayRange | None) -> None:
    if not judged:
        say("Nothing is quarantined" + (f" on {days}." if days else "."))
        return
    rows = new_table("table", "day", "freed", "still bad", "of which", numbers=["freed", "still bad"])
    for total in [each for each in judged if each.reason is None]:
        of_day = [each for each in judged if each.reason and (each.table, each.day) == (total.table, total.day)]
        why = [_words(each) for each in of_day]
        rows.add_row(total.table, str(total.day), f"{total.freed:,}", f"{total.still_bad:,}", why)
    say(rows, "{freed:,} rows would be freed, {still_bad:,} are still bad.".format(**_totals(judged)))


def _words(judged: Judged) -> str:
    counts = ((judged.freed, "freed"), (judged.still_bad, "still bad"))
    return f"{judged.reason} ({', '.join(f'{rows:,} {what}' for rows, what in counts if rows)})"


def _as_json(judged: Judged) -> dict[str, Any]:
    return {name: getattr(judged, name) for name in ("table", "day", "reason", "freed", "still_bad")}
