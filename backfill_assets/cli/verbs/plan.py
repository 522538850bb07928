from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from backfill_assets.cli.completion import complete_table_or_plan
from backfill_assets.cli.ids import find_plan, is_plan
from backfill_assets.cli.options import as_json, days, expect, long, newest_first, refuse, version
from backfill_assets.cli.output import awaited, say_answer
from backfill_assets.cli.selections import target_meant
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.campaign.plan_file import CheckedPlanFile

SCOPES = ("onwards", "whole", "downstream", "source")
_OF_TABLES = ("target", "days", "version", "scope", "where", "force", "newest_first", "expected")


@click.command()
@click.argument("target", shell_complete=complete_table_or_plan, required=False, metavar="TABLE|PLAN")
@click.option(
    "-f",
    "file",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Plan what this file says. With --check also a folder: each plan file in it.",
)
@click.option("--check", is_flag=True, help="With -f: show what would happen, and store nothing. For CI.")
@days("The days of TABLE; weekly and monthly tables get the periods with these days.")
@version("The version of TABLE's logic.  [default: the current one]")
@click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default=SCOPES[0],
    show_default=True,
    help="TABLE and what is computed from it (onwards); also what it is computed from (whole); only what is computed "
    "from it (downstream); or whole, with landed files that their source has changed read again (source).",
)
@click.option(
    "--where",
    default="",
    metavar="ROWS",
    help='Only these rows of TABLE\'s days, by the version that they have: "store_id in (3, 7)", with =, in, between '
    "and `and`, over columns of its key or groups.",
)
@click.option("--force", is_flag=True, help="Also rebuild days that are unchanged.")
@newest_first
@expect
@long
@as_json
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.pass_context
def plan(
    ctx: click.Context,
    target: str | None,
    file: Path | None,
    check: bool,
    days: DayRange | None,
    version: str | None,
    scope: str,
    where: str,
    force: bool,
    newest_first: bool,
    expected: tuple[str, ...],
    as_markdown: bool,
) -> None:
    """Plan a rebuild of days of TABLE and of what is computed from it.

    \b
    Examples:
      backfill plan fact_sales_transactions --days 2017-03-01..2017-05-29 --version v2
      backfill plan fact_daily_revenue --days 2017-03-01..2017-05-29 --expect "revenue_eur < 2% a day"
      backfill plan +fact_daily_revenue --days 2017-03-01       also all that it is computed from: --scope whole
      backfill plan -f backfills --check             in CI: what would happen; nothing is stored

    Reads logs only: nothing is computed, and Spark is not started. The plan is stored in the lakehouse, and its id is a
    hash of its content. With PLAN, a plan is shown again, with what has changed since. On a terminal the first lines
    say what is rebuilt, how many days, why, at what cost and risk, and what comes next; --long shows the rest.

    With -f FILE, everything comes from the file. The same file on the same state is the same plan, with the same id.

    The exit code is 1 if a finding blocks the plan, if its inputs have changed since, or if too few people may approve
    it. It is 2 for a file that is no valid plan.
    """
    from backfill_assets.answers.plan import plan_answer, plan_file_answer, plan_files_answer
    from backfill_assets.plan.expectations import Expectation
    from backfill_assets.plan.keep import look_again, plan_and_keep
    from backfill_assets.plan.records import PlanRequest, Scope
    from backfill_assets.rebuild.outcome import os_person

    settings, moved = current_settings(), None
    if file is not None or check:
        refuse(ctx, _OF_TABLES, "with -f or --check: the file says it")
        with awaited("Planning"):
            checked = _read(file, check=check)
        answer = plan_files_answer(checked) if file and file.is_dir() else plan_file_answer(checked[0])
        exit_code = max(each.exit_code for each in checked)
    else:
        if target is not None and is_plan(target):
            if expected:
                raise click.UsageError("A plan that is kept does not change: plan again with --expect.")
            with awaited("Looking again"):
                found, moved, now = look_again(settings, current_catalog(), find_plan(open_storage(), target))
        else:
            table, chosen = _table_and_days(target, days)
            typed = ctx.get_parameter_source("scope") is not ParameterSource.DEFAULT
            table, meant = target_meant(table, Scope(scope), scope_is_typed=typed)
            asked = PlanRequest(
                target=table,
                days=format_range(chosen),
                version=version or "",
                scope=meant,
                where=where,
                force=force,
                newest_first=newest_first,
                expectations=tuple(map(Expectation.parse, expected)),
            )
            with awaited("Planning"):
                found, now = plan_and_keep(settings, current_catalog(), asked, os_person())
        answer = plan_answer(found, now, moved)
        exit_code = 1 if found.stopped or moved else 0
    say_answer(answer, as_markdown=as_markdown)
    ctx.exit(exit_code)


def _table_and_days(target: str | None, days: DayRange | None) -> tuple[str, DayRange]:
    if target is None:
        raise click.UsageError("Name a TABLE, or a file with -f FILE.")
    if target.endswith((".yaml", ".yml")):
        raise click.UsageError(f"{target} is a plan file: backfill plan -f {target}")
    if days is None:
        raise click.UsageError("--days A..B is missing: which days of the table?")
    return target, days


def _read(place: Path | None, *, check: bool) -> Sequence[CheckedPlanFile]:
    from backfill_assets.campaign.plan_file import plan_file, plan_files
    from backfill_assets.rebuild.outcome import os_person

    if place is None:
        raise click.UsageError("--check is about a file: add -f FILE.")
    if place.is_dir() and not check:
        raise click.UsageError(f"{place} is a folder: only --check takes one. Plan its files one by one.")
    settings, catalog, person = current_settings(), current_catalog(), os_person()
    return [plan_file(settings, catalog, path, person, keep=not check) for path in plan_files(place)]
