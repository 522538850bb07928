"""``backfill run``: builds a range of days in the foreground, without Dagster's daemon."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from backfill_assets.cli.campaign import stage_plan
from backfill_assets.cli.foreground import foreground_builder, run_info, tell
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.not_taken_in import not_taken_in
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_settings, open_storage
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError

if TYPE_CHECKING:
    from backfill_assets.backfill.campaign_run import Options
    from backfill_assets.backfill.foreground import StepRun
    from backfill_assets.build import Builder, BuildResult
    from backfill_assets.cli.not_taken_in import NotTakenIn
    from backfill_assets.settings import Settings

_EPILOG = """
\b
Examples:
  backfill run fact_daily_revenue --days 2017-03-01..2017-05-29
  backfill run bronze_sales --downstream --days 2017-03-04
  backfill run report_store_ranking --upstream --days 2017-03-01..2017-05-29
  backfill run fact_sales_transactions --days 2017-03-01..2017-05-29 --dry-run
  backfill run plan-0123456789abcdef
"""

_STEPS = (
    *("announced", "source_verified", "watermarks_pinned", "shadow_backfilled", "validated"),
    *("downstream_rebuilt", "completion_told"),
)
"""Of a campaign, those that it can begin again at; written down so that help needs no imports."""


@dataclass(frozen=True)
class Ran:
    """What became of one step."""

    step: str
    days: int
    unchanged: int
    rows: int
    publications: tuple[str, ...]
    seconds: float
    appended_elsewhere: Mapping[str, tuple[date, ...]]
    """The days outside the run that gained rows, by table."""


@click.command(epilog=_EPILOG)
@click.argument("tables", nargs=-1, required=True)
@click.option(
    "--days",
    "days_texts",
    multiple=True,
    metavar="A..B",
    help="The days; weeks and months follow from them. May be given several times.",
)
@click.option("--upstream", is_flag=True, help="Also everything that TABLES are computed from.")
@click.option("--downstream", is_flag=True, help="Also everything that is computed from TABLES.")
@click.option(
    "--version", metavar="V", help="Build TABLES with this version of their logic.  [default: the current one]"
)
@click.option("--force", is_flag=True, help="Compute days again that nothing has changed for.")
@click.option("--dry-run", is_flag=True, help="Say what would be built, and stop.")
@click.option("--waves", default="1%,10%,50%,100%", show_default=True, help="Of a plan: the shares it is staged in.")
@click.option("--limits", default="", metavar="NAME=VALUE,..", help="Of a plan: what stops it, such as deviation=2%.")
@click.option("--daemon", is_flag=True, help="Of a plan: let Dagster's daemon carry it out.")
@click.option("--roll-back-if-wrong", is_flag=True, help="Of a plan: undo it if the checks after the cut-over fail.")
@click.option("--from", "first", type=click.Choice(_STEPS), help="Of a plan: begin again at this step.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run(
    context: click.Context,
    tables: tuple[str, ...],
    days_texts: tuple[str, ...],
    upstream: bool,
    downstream: bool,
    version: str | None,
    force: bool,
    dry_run: bool,
    waves: str,
    limits: str,
    daemon: bool,
    roll_back_if_wrong: bool,
    first: str | None,
    as_json: bool,
) -> None:
    """Build days of TABLES here and now, step by step, each published as it passes its gates.

    What is unchanged is decided from the logs before Spark starts; if all of it is, Spark does not start. Days staged
    by a run that failed are used again. Dagster is told by its sensor when its daemon runs next.

    With the id of a plan instead of TABLES, its days are staged where no reader sees them, a canary first and more in
    waves, until a limit stops it or it waits for approval; `backfill approve` publishes all of its tables at once.
    """
    if _is_plan(tables):
        _require_options_of(context, "plan", ("days_texts", "upstream", "downstream", "version", "force", "dry_run"))
        stage_plan(tables[0], _options(waves, limits, daemon, roll_back_if_wrong), first, as_json)
        return
    _require_options_of(context, "table", ("waves", "limits", "daemon", "roll_back_if_wrong", "first"))
    if not days_texts:
        raise click.UsageError("--days A..B is missing: which days of the tables?")
    settings = current_settings()
    days = sorted({day for text in days_texts for day in DayRange.parse(text)})
    plan = _plan(settings, tables, days, upstream=upstream, downstream=downstream, force=force)
    if version is not None:
        _require_version(plan, tables, version)
    waiting = not_taken_in(settings, plan, days)
    if not as_json:
        _say_plan(plan, days, waiting)
    told = {"days": list(days_texts), "not_taken_in": [_waiting_json(each) for each in waiting]}
    if dry_run:
        if as_json:
            say_json({**told, "steps": [_plan_json(step) for step in plan]})
        return
    with ExitStack() as stack:
        ran = _run(plan, foreground_builder(settings, stack), dict.fromkeys(tables, version))
    if as_json:
        say_json({**told, "steps": [asdict(step) for step in ran]})
    else:
        _say_ran(ran)


def _require_options_of(context: click.Context, what: str, others: Sequence[str]) -> None:
    """A kept plan does not change, and a table has no waves: what would be ignored is refused."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in others and given:
            reason = "a kept plan does not change; plan anew" if what == "plan" else "it is about carrying out a plan"
            raise click.UsageError(f"{option.opts[0]} cannot be given with a {what}: {reason}.")


def _options(waves: str, limits: str, daemon: bool, roll_back_if_wrong: bool) -> Options:
    from backfill_assets.backfill.breaker import Limits
    from backfill_assets.backfill.campaign_run import Options
    from backfill_assets.backfill.waves import Shares

    return Options(Shares.parse(waves), Limits.parse(limits), daemon, roll_back_if_wrong=roll_back_if_wrong)


def _is_plan(tables: Sequence[str]) -> bool:
    from backfill_assets.lakehouse.plans import is_plan_id

    return len(tables) == 1 and is_plan_id(tables[0])


def _plan(
    settings: Settings, tables: Sequence[str], days: Sequence[date], *, upstream: bool, downstream: bool, force: bool
) -> list[StepRun]:
    from backfill_assets.backfill.foreground import around, planned, require_ended
    from backfill_assets.backfill.status import day_statuses
    from backfill_assets.datasets import registry
    from backfill_assets.lakehouse.observed import observe

    require_ended(days, datetime.now(UTC).date())
    for table in tables:
        registry.table(table)
    steps = registry.steps()
    chosen = around(steps, tables, upstream=upstream, downstream=downstream)
    observed = observe(open_storage(settings), [table.name for table in registry.tables()])
    return planned(steps, chosen, days, day_statuses(steps, observed, DayRange(days[0], days[-1])), force=force)


def _require_version(plan: Sequence[StepRun], tables: Sequence[str], version: str) -> None:
    for each in plan:
        if any(table.name in tables for table in each.step.tables):
            each.step.version(version)


def _run(plan: Sequence[StepRun], builder: Builder, versions: dict[str, str | None]) -> list[Ran]:
    info = run_info("backfill run")
    ran: list[Ran] = []
    for each in plan:
        started = time.monotonic()
        version = next((versions[table.name] for table in each.step.tables if table.name in versions), None)
        try:
            result = builder.build(each.step, each.days, run=info, version=version, force=each.force, progress=tell)
        except KeyboardInterrupt:
            raise _interrupted(each, ran) from None
        except BackfillError:
            _say_ran(ran)
            raise
        ran.append(_ran(each, result, time.monotonic() - started))
    return ran


def _ran(each: StepRun, result: BuildResult, seconds: float) -> Ran:
    days = [day for day in result.days if day.table == each.step.name]
    return Ran(
        step=each.step.name,
        days=len(days),
        unchanged=sum(day.reused for day in days),
        rows=sum(day.rows for day in days),
        publications=result.publications,
        seconds=round(seconds, 1),
        appended_elsewhere=result.appended_elsewhere,
    )


def _interrupted(each: StepRun, ran: Sequence[Ran]) -> Interrupted:
    before = f" Published before: {', '.join(step.step for step in ran)}." if ran else ""
    return Interrupted(
        f"Interrupted while {each.step.name} was built: nothing of it was published.{before}\n"
        "  -> Run the same command again: days that were staged are used as they are."
    )


def _say_plan(plan: Sequence[StepRun], days: Sequence[date], waiting: Sequence[NotTakenIn]) -> None:
    rows = new_table("table", "periods", "unchanged", "to build", "why", numbers=["periods", "unchanged", "to build"])
    for each in plan:
        left = len(each.days) - len(each.unchanged)
        rows.add_row(each.step.name, f"{len(each.days):,}", f"{len(each.unchanged):,}", f"{left:,}", _why(each))
    say(f"{ranges(days)}, as things stand now (what is built before a table may change its inputs):", rows)
    for files in waiting:
        say(str(files))


def _why(each: StepRun) -> str:
    if each.step.source is not None:
        return "takes in what has landed since"
    by_status: dict[str, list[date]] = {}
    for day in each.days:
        if day not in each.unchanged:
            by_status.setdefault("asked for" if each.force else each.statuses[day].value, []).append(day)
    return "; ".join(f"{status}: {ranges(found, most=2)}" for status, found in by_status.items())


def _say_ran(ran: Sequence[Ran]) -> None:
    if not ran:
        return
    counts = ("periods", "published", "unchanged", "rows", "seconds")
    rows = new_table("table", *counts, "publication", numbers=counts)
    for step in ran:
        published = step.days - step.unchanged
        told = (f"{step.days:,}", f"{published:,}", f"{step.unchanged:,}", f"{step.rows:,}", f"{step.seconds:.1f}")
        rows.add_row(step.step, *told, ", ".join(step.publications))
    say(rows)
    for table, days in (item for step in ran for item in step.appended_elsewhere.items()):
        late = ranges(days)
        say(f"{table}: rows were appended to {late} as well; what is computed from it is stale: run {late} too")
    if all(step.unchanged == step.days and not step.appended_elsewhere for step in ran):
        say("Nothing was computed: every day was published before, from the same inputs by the same code.")


def _waiting_json(waiting: NotTakenIn) -> dict[str, object]:
    files = {str(day): count for day, count in waiting.files.items()}
    return {"table": waiting.table, "files": files, "problem": waiting.problem}


def _plan_json(each: StepRun) -> dict[str, object]:
    return {
        "step": each.step.name,
        "cadence": each.step.cadence.value,
        "days": {str(day): each.statuses[day].value for day in each.days},
        "unchanged": [str(day) for day in each.unchanged],
    }
