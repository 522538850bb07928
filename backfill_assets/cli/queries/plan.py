"""``backfill plan``: what a rebuild would do, what it costs and what blocks it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from backfill_assets.cli.completion import complete_days, complete_table_or_plan, complete_version
from backfill_assets.cli.ids import find_plan, is_plan, typed_storage
from backfill_assets.cli.output import say_json
from backfill_assets.cli.plan_screen import say_next, say_plan
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.days import DayRange
from backfill_assets.text import format_range

if TYPE_CHECKING:
    from backfill_assets.plan.basis import PlanDrift
    from backfill_assets.plan.records import Plan, Scope

_WITH_A_FILE = {"file", "check", "schema", "as_json", "as_markdown"}
_EPILOG = """
\b
Examples:
  backfill plan fact_sales_transactions --days 2017-03-01..2017-05-29
  backfill plan fact_sales_transactions --days 2017-03-01..2017-05-29 --version v1
  backfill plan bronze_sales --days 2017-03-04 --source-too
  backfill plan bronze_sales --days 2017-03-04 --refresh-source
  backfill plan fact_sales_transactions --days 2017-03-04 --only-downstream
  backfill plan fact_daily_revenue --days 2017-03-01..2017-05-29 --markdown > plan.md
  backfill plan fact_daily_revenue --days 2017-03-01..2017-05-29 \\
      --expect "revenue_eur < 2% a day" --expect "weekends unchanged" --expect "rows unchanged"
  backfill plan plan-0123456789abcdef            show a plan again, and what has moved since
  backfill plan -f backfills/2017-fx.yaml        a plan as a file that is reviewed
  backfill plan -f backfills --check             in CI: what would happen; nothing is stored
"""


@click.command(epilog=_EPILOG)
@click.argument("target", shell_complete=complete_table_or_plan, required=False)
@click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(exists=True, path_type=Path),
    help="Plan what this file says. With --check also a folder: each plan file in it.",
)
@click.option("--check", is_flag=True, help="With -f: show what would happen, and store nothing. For CI.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of plan files, for editors.")
@click.option(
    "--days",
    "days_text",
    shell_complete=complete_days,
    metavar="A..B",
    help="The days of TARGET; weekly and monthly tables get the periods with these days.",
)
@click.option(
    "--version",
    default="",
    shell_complete=complete_version,
    metavar="V",
    help="The version of TARGET's logic.  [default: the current one]",
)
@click.option("--only-downstream", is_flag=True, help="Rebuild only what is computed from TARGET.")
@click.option("--source-too", is_flag=True, help="Also rebuild everything that TARGET is computed from.")
@click.option("--refresh-source", is_flag=True, help="Also read landed files again that their source has changed.")
@click.option("--force", is_flag=True, help="Also rebuild days that are unchanged.")
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="TEXT",
    help='Expect this of the difference; `backfill diff` judges it: "revenue_eur < 2% a day", "weekends unchanged", '
    '"rows unchanged", "currency=EUR unchanged". Can be given several times.',
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown.")
@click.pass_context
def plan(
    ctx: click.Context,
    target: str | None,
    file: Path | None,
    check: bool,
    schema: bool,
    days_text: str | None,
    version: str,
    only_downstream: bool,
    source_too: bool,
    refresh_source: bool,
    force: bool,
    expected: tuple[str, ...],
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Plan a rebuild of days of the table TARGET and of what is computed from it.

    Reads logs only: nothing is computed, and Spark is not started. The plan is stored in the lakehouse, and its id is a
    hash of its content. With the id as TARGET, the plan is shown again, with what has changed since.

    With -f FILE, everything comes from the file. The same file on the same state is the same plan, with the same id.

    The exit code is 1 if a finding blocks the plan, if its inputs have changed since, or if too few people may approve
    it. It is 2 for a file that is no valid plan.
    """
    if file is not None or check or schema:
        _refuse_beside_a_file(ctx)
        ctx.exit(_file_command(file, check=check, schema=schema, as_json=as_json, as_markdown=as_markdown))
    from backfill_assets.plan.keep import look_again

    if target is None:
        raise click.UsageError("Name a TARGET, or a file with -f FILE.")
    moved: PlanDrift | None = None
    if is_plan(target):
        if expected:
            raise click.UsageError("A plan that is kept does not change: plan again with --expect.")
        found, moved, now = look_again(current_settings(), current_catalog(), find_plan(typed_storage(), target))
    else:
        scope = _scope(only_downstream, source_too, refresh_source)
        found, now = _make(target, days_text, version, scope, force, expected=expected)
    if as_json:
        say_json(_as_json(found, moved))
    elif as_markdown:
        from backfill_assets.plan.text import markdown

        click.echo(markdown(found, now, moved), nl=False)
    else:
        say_plan(found, now, moved)
        say_next(found, moved)
    if found.stopped or moved:
        ctx.exit(1)


def _refuse_beside_a_file(ctx: click.Context) -> None:
    """A file says everything: what is given beside it would be in no review."""
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is not ParameterSource.DEFAULT
        if given and parameter.name not in _WITH_A_FILE:
            name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(ctx).strip("[]")
            raise click.UsageError(f"{name} cannot be given with -f, --check or --schema: the file says it.")


def _file_command(file: Path | None, *, check: bool, schema: bool, as_json: bool, as_markdown: bool) -> int:
    from backfill_assets.cli.queries import plan_file

    if schema:
        plan_file.say_schema()
        return 0
    if file is None:
        raise click.UsageError("--check is about a file: add -f FILE.")
    if file.is_dir() and not check:
        raise click.UsageError(f"{file} is a folder: only --check takes one. Plan its files one by one.")
    return plan_file.plan_from_file(file, check=check, as_json=as_json, as_markdown=as_markdown)


def _scope(only_downstream: bool, source_too: bool, refresh_source: bool) -> Scope:
    from backfill_assets.plan.records import Scope

    if only_downstream and (source_too or refresh_source):
        other = "--source-too" if source_too else "--refresh-source"
        raise click.UsageError(f"--only-downstream and {other} cannot be combined.")
    if only_downstream:
        return Scope.DOWNSTREAM
    if refresh_source:
        return Scope.SOURCE
    return Scope.WHOLE if source_too else Scope.ONWARDS


def _make(
    target: str, days_text: str | None, version: str, scope: Scope, force: bool, *, expected: Sequence[str]
) -> tuple[Plan, datetime]:
    from backfill_assets.plan.keep import plan_and_keep
    from backfill_assets.plan.records import PlanRequest
    from backfill_assets.rebuild.person import os_person

    if target.endswith((".yaml", ".yml")):
        raise click.UsageError(f"{target} is a plan file: backfill plan --file {target}")
    if days_text is None:
        raise click.UsageError("--days A..B is missing: which days of the table?")
    days = format_range(DayRange.parse(days_text))
    asked = PlanRequest(target=target, days=days, version=version, scope=scope, force=force)
    return plan_and_keep(current_settings(), current_catalog(), asked, expected, by=os_person())


def _as_json(found: Plan, moved: PlanDrift | None) -> dict[str, object]:
    from backfill_assets.plan_file.text import plan_json

    values = plan_json(found)
    return values if moved is None else {**values, "moved": moved.lines()}
