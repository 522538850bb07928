"""``backfill run``: builds a range of days in the foreground, without Dagster's daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import cache, partial
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from backfill_assets.cli.commands.campaign import stage_plan
from backfill_assets.cli.completion import complete_days, complete_table_or_plan, complete_timeline, complete_version
from backfill_assets.cli.foreground import foreground_builder, report_progress, report_step, run_info
from backfill_assets.cli.group import Interrupted
from backfill_assets.cli.ids import find_plan, find_timeline, is_plan, short_ids, typed_storage
from backfill_assets.cli.on_timeline import plan_on_timeline, run_json, run_on_timeline, say_run
from backfill_assets.cli.output import moment, ranges, say, say_json, say_stale
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.campaign.run import Options
    from backfill_assets.plan.records import Plan, PlannedStep
    from backfill_assets.plan.table_run import NotTakenIn, RunPlan, RunRequest
    from backfill_assets.rebuild.builder import Builder
    from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
    from backfill_assets.settings import Settings

_OF_TABLES = ("days_texts", "upstream", "downstream", "version", "force", "verify", "dry_run", "name")
_EPILOG = """
\b
Examples:
  backfill run fact_daily_revenue --days 2017-03-01..2017-05-29
  backfill run bronze_sales --downstream --days 2017-03-04
  backfill run bronze_fx_rates --downstream --days 2017-03-04     also the later days that use these rates
  backfill run report_store_ranking --upstream --days 2017-03-01..2017-05-29
  backfill run fact_sales_transactions --days 2017-03-01..2017-05-29 --dry-run
  backfill run fact_daily_revenue --days 2017-03-01..2017-05-29 --on trial     on a timeline; nothing is published
  backfill run plan-0123456789abcdef
"""

_STEPS = (
    *("announced", "source_verified", "watermarks_pinned", "shadow_backfilled", "validated"),
    *("downstream_rebuilt", "completion_told"),
)
"""The steps at which a campaign can begin again; listed here so that help needs no imports."""


@dataclass(frozen=True)
class Ran:
    """The result of one step."""

    step: str
    days: int
    unchanged: int
    rows: int
    deduplicated: int | None
    """Rows that gave way to another of their key, where the step counts them."""
    publications: tuple[str, ...]
    seconds: float
    appended_elsewhere: Mapping[str, tuple[date, ...]]
    """The days outside the run that gained rows, by table."""
    verified: Mapping[str, str] = field(default_factory=dict)
    """Of the extended days that were verified, what was found, by table and day."""
    versions: tuple[str, ...] = ()
    """The versions of the logic that the days have; none for raw."""
    built: Mapping[str, Sequence[date]] = field(default_factory=dict)
    """The days that were published, by table; late rows that went elsewhere among them."""


@click.command(epilog=_EPILOG)
@click.argument("tables", shell_complete=complete_table_or_plan, nargs=-1, required=True)
@click.option(
    "--days",
    "days_texts",
    multiple=True,
    shell_complete=complete_days,
    metavar="A..B",
    help="The days; weekly and monthly tables get the periods with these days. Can be given several times.",
)
@click.option(
    "--upstream",
    is_flag=True,
    help="Also build everything that TABLES are computed from, and the earlier days that they look back to.",
)
@click.option(
    "--downstream",
    is_flag=True,
    help="Also build everything that is computed from TABLES, and the later days that look back.",
)
@click.option(
    "--version",
    shell_complete=complete_version,
    metavar="V",
    help='Build TABLES with this version of their logic. "as published": build every day with the version that it '
    "was published with.  [default: the current one]",
)
@click.option("--force", is_flag=True, help="Also compute days again that are unchanged.")
@click.option(
    "--verify",
    is_flag=True,
    help="Also compute the days whole that a stream has extended, and publish those that differ.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be built, and stop.")
@click.option(
    "--on",
    "name",
    shell_complete=complete_timeline,
    metavar="NAME",
    help="Build the days on this timeline; nothing is published.",
)
@click.option(
    "--waves",
    default="",
    metavar="SHARE,..",
    help="Plan only: the share staged by the end of each wave.  [default: those of the plan, or 1%,10%,50%,100%]",
)
@click.option(
    "--limits", default="", metavar="NAME=VALUE,..", help="Plan only: limits that stop it, such as deviation=2%."
)
@click.option("--daemon", is_flag=True, help="Plan only: let Dagster's daemon carry it out.")
@click.option("--roll-back-if-wrong", is_flag=True, help="Plan only: undo it if the checks after publication fail.")
@click.option("--from", "first", type=click.Choice(_STEPS), help="Plan only: begin again at this step.")
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
    verify: bool,
    dry_run: bool,
    name: str | None,
    waves: str,
    limits: str,
    daemon: bool,
    roll_back_if_wrong: bool,
    first: str | None,
    as_json: bool,
) -> None:
    """Build days of TABLES in this process, step by step. Each step is published when its gates pass.

    If a step fails, those that read its tables are left out, all others are built, and the exit code is 1.

    The logs show which days are unchanged before Spark starts; if all are, Spark does not start. Days that a failed run
    has staged are used again. Dagster shows the new days once its daemon runs. Progress goes to standard error, with
    the time unless it is a terminal; the result goes to standard output.

    --upstream includes the earlier days that the days look back to, as far as they have landed: a rate of Friday is
    used on Sunday. --downstream includes the published days that look back to the days: a rate is used for up to a
    week. If the inputs of such a later day have changed, it is built with the version that it was published with.

    With --on, the days are built on a timeline: from its own days and its base, with the same gates. Raw tables are not
    built there.

    With the id of a plan instead of TABLES, the days of the plan are staged where no reader sees them: a canary first,
    then more in waves, until a limit stops it or it waits for approval. `backfill approve` then publishes all of its
    tables at once.
    """
    if any(map(is_plan, tables)):
        if len(tables) > 1:
            raise click.UsageError("A plan is carried out alone: give its id, or tables with --days.")
        find_plan(typed_storage(), tables[0])
        _require_options_of(context, "plan", _OF_TABLES)
        stage_plan(tables[0], _options(waves, limits, daemon, roll_back_if_wrong), first, as_json)
        return
    _require_options_of(context, "table", ("waves", "limits", "daemon", "roll_back_if_wrong", "first"))
    if not days_texts:
        raise click.UsageError("--days A..B is missing: which days of the tables?")
    from backfill_assets.plan.table_run import RunRequest

    days = sorted({day for text in days_texts for day in DayRange.parse(text)})
    asked = RunRequest(tables, days, upstream=upstream, downstream=downstream, version=version, force=force)
    settings = current_settings()
    if name is not None:
        _refuse_verify(verify)
        name = find_timeline(typed_storage(), name, change=True)
        _run_on(settings, asked, name, dry_run=dry_run, as_json=as_json)
    else:
        _run_on_main(settings, asked, days_texts, verify=verify, dry_run=dry_run, as_json=as_json)


def _refuse_verify(verify: bool) -> None:
    if verify:
        raise click.UsageError("--verify is about published days: give it without --on.")


def _run_on_main(
    settings: Settings, asked: RunRequest, days_texts: Sequence[str], *, verify: bool, dry_run: bool, as_json: bool
) -> None:
    plan = _plan(settings, asked)
    if not as_json:
        _say_plan(plan)
    values = {"days": list(days_texts), "not_taken_in": [_waiting_json(each) for each in plan.not_taken_in]}
    if dry_run:
        if as_json:
            say_json({**values, "steps": [_plan_json(step) for step in plan.steps]})
        return
    with ExitStack() as stack:
        ran = _run(plan, foreground_builder(settings, stack), verify=verify)
    stale = _stale_readers(settings, ran)
    if as_json:
        steps = [{name: value for name, value in asdict(step).items() if name != "built"} for step in ran]
        say_json({**values, "steps": steps, "stale": stale})
    else:
        _say_ran(ran)
        say_stale(stale)


def _stale_readers(settings: Settings, ran: Sequence[Ran]) -> Mapping[str, Sequence[date]]:
    """The published days that read what was published now, and were not built with it."""
    from backfill_assets.published.observed import observe
    from backfill_assets.published.readers import stale_readers

    built = {table: days for step in ran for table, days in step.built.items() if days}
    readers = [step for step in current_catalog().steps if any(read.table in built for read in step.reads)]
    names = [name for step in readers for name in step.table_names]
    if not names:
        return {}
    tables = {*names, *(read.table for step in readers for read in step.reads)}
    return stale_readers(readers, observe(open_storage(settings), tables), built, {})


def _run_on(settings: Settings, asked: RunRequest, name: str, *, dry_run: bool, as_json: bool) -> None:
    planned = plan_on_timeline(settings, asked, name)
    plan = planned.plan
    if not as_json:
        say(f"On the timeline {name}:")
        _say_plan(plan)
        say(*(f"{table} is left out: raw is shared, and read as of the timeline's base" for table in planned.left_out))
    values = {"timeline": name, "left_out": list(planned.left_out), "steps": [_plan_json(each) for each in plan.steps]}
    done = None if dry_run else run_on_timeline(settings, planned)
    if as_json:
        say_json(values if done is None else {**values, **run_json(done)})
    elif done is not None:
        say_run(done)


def _require_options_of(context: click.Context, what: str, others: Sequence[str]) -> None:
    """A kept plan does not change, and a table has no waves: options that would be ignored are refused."""
    for option in context.command.params:
        given = context.get_parameter_source(option.name or "") is not ParameterSource.DEFAULT
        if option.name in others and given:
            reason = "a kept plan does not change; plan anew" if what == "plan" else "it is about carrying out a plan"
            raise click.UsageError(f"{option.opts[0]} cannot be given with a {what}: {reason}.")


def _options(waves: str, limits: str, daemon: bool, roll_back_if_wrong: bool) -> Callable[[Plan], Options]:
    from backfill_assets.campaign.run import Options

    return partial(Options.of_plan, waves=waves, limits=limits, daemon=daemon, roll_back_if_wrong=roll_back_if_wrong)


def _plan(settings: Settings, asked: RunRequest) -> RunPlan:
    """From the logs and from the names of landed files."""
    from backfill_assets.landing.landed_days import LandedSource, landed_source
    from backfill_assets.landing.zone import LandingZone
    from backfill_assets.plan.table_run import RunContext, plan_run
    from backfill_assets.published.observed import observe
    from backfill_assets.published.rolled_back import rollbacks

    for table in asked.tables:
        current_catalog().table(table)
    storage, zone = open_storage(settings), LandingZone(settings.landing)

    @cache
    def landed_for(table: str) -> LandedSource:
        source = current_catalog().step(table).source
        return landed_source(zone, storage, source.name, table) if source else LandedSource()

    observed = observe(storage, current_catalog().table_names)
    steps = observed.with_current(current_catalog().steps)
    today = datetime.now(UTC).date()
    return plan_run(asked, RunContext(steps, observed, today, landed_for, lambda: rollbacks(storage)))


def _run(plan: RunPlan, builder: Builder, *, verify: bool = False) -> list[Ran]:
    """What does not read a table that failed is built all the same; the first error is raised at the end."""
    from backfill_assets.plan.records import days_of

    info = run_info("backfill run")
    ran: list[Ran] = []
    failures: list[BackfillError] = []
    absent: set[str] = set()
    for each in plan.steps:
        step, started = current_catalog().step(each.name), time.monotonic()
        if lacks := sorted({read.table for read in step.reads} & absent):
            report_step(f"{each.name}: left out, it reads {', '.join(lacks)}")
            absent.update(step.table_names)
            continue
        report_step(f"{each.name}: {format_count(len(each.all_days), each.cadence.noun)} ...")
        try:
            result = builder.build(
                step,
                each.all_days,
                run=info,
                version=each.version or None,
                force=plan.asked.force,
                later=days_of([*each.later, *each.earlier]),
                verify=verify,
                progress=report_progress,
            )
        except KeyboardInterrupt:
            raise _interruption(each.name, ran) from None
        except LakehouseUnusable:
            _say_ran(ran)
            raise
        except BackfillError as error:
            failures.append(error)
            absent.update(step.table_names)
            if each is not plan.steps[-1]:
                first_line, *_ = error.message.splitlines()
                report_step(f"{each.name}: failed, the tables that do not read it go on: {first_line}")
            continue
        ran.append(_summary_of(each.name, result, time.monotonic() - started))
        report_step(_in_a_line(ran[-1]))
    if failures:
        _say_ran(ran)
        raise failures[0]
    return ran


def _in_a_line(step: Ran) -> str:
    published = step.days - step.unchanged
    return f"{step.step}: {published:,} published, {step.unchanged:,} unchanged, in {step.seconds:.1f} s"


def _summary_of(step: str, result: BuildResult, seconds: float) -> Ran:
    from backfill_assets.model.placement import is_ingestion

    days = [day for day in result.days if day.table == step]
    return Ran(
        step=step,
        days=len(days),
        unchanged=sum(day.reused for day in days),
        rows=sum(day.rows for day in days),
        deduplicated=_deduplicated_rows(days),
        publications=result.publications,
        seconds=round(seconds, 1),
        appended_elsewhere=result.appended_elsewhere,
        verified={f"{day.table} {day.day}": day.verified for day in result.days if day.verified},
        versions=tuple(sorted({day.code_version for day in days if not is_ingestion(day.code_version)})),
        built=_published_days(result),
    )


def _published_days(result: BuildResult) -> dict[str, list[date]]:
    found = {table: list(days) for table, days in result.appended_elsewhere.items()}
    for day in result.days:
        if not day.reused:
            found.setdefault(day.table, []).append(day.day)
    return found


def _deduplicated_rows(days: Sequence[BuiltDay]) -> int | None:
    counts = [int(count) for day in days if (count := day.metrics.get("deduplicated")) is not None]
    return sum(counts) if counts else None


def _interruption(step: str, ran: Sequence[Ran]) -> Interrupted:
    before = f" Published before: {', '.join(each.step for each in ran)}." if ran else ""
    return Interrupted(
        f"Interrupted while {step} was built: nothing of it was published.{before}\n"
        "  -> Run the same command again: days that were staged are used as they are."
    )


def _say_plan(plan: RunPlan) -> None:
    from backfill_assets.plan.records import Why, days_of

    numbers = ("periods", "unchanged", "to build")
    rows = new_table("table", "version", *numbers, "why", numbers=numbers, drop=("periods", "unchanged", "version"))
    for each in plan.steps:
        to_build, periods = len(each.days), len(each.all_days)
        rows.add_row(
            each.name,
            each.version,
            f"{periods:,}",
            f"{periods - to_build:,}",
            f"{to_build:,}",
            "; ".join(_why(each, plan.asked.force)),
        )
    say(f"{ranges(plan.asked.days)}, as things stand now:", rows)
    if any(Why.INPUT_REBUILT in each.rebuild for each in plan.steps):
        say("A day of which an input is rebuilt stays unchanged if the input comes out the same.")
    show = short_ids(typed_storage()) if any(each.rolled_back for each in plan.steps) else str
    for each in plan.steps:
        for by in dict.fromkeys(each.rolled_back.values()):
            back = ranges([day for day, found in each.rolled_back.items() if found == by], most=2)
            say(f"{each.name}: rolled back on {moment(by.at)} by {show(by.publication)}, would be built again: {back}")
        if each.later:
            later = ranges(days_of(each.later))
            say(f"{each.name}: {later} look back to these days, and are built as they were published")
        if each.earlier:
            say(f"{each.name}: {ranges(days_of(each.earlier))} come along: the days look back to them")
    for files in plan.not_taken_in:
        say(str(files))


def _why(each: PlannedStep, force: bool) -> list[str]:
    from backfill_assets.plan.records import Why
    from backfill_assets.plan.scope import status_of

    raw = each.kind == "take in"
    by_status: dict[str, list[date]] = {}
    for day, why in each.why.items():
        if day not in each.to_ingest:
            reason = why.value if why is Why.INPUT_REBUILT else status_of(why).value
            by_status.setdefault("asked for" if force and not raw else reason, []).append(day)
    files = sum(each.to_ingest.values())
    reasons = [f"{format_count(files, 'file')} to ingest: {ranges(each.to_ingest, most=2)}"] if files else []
    reasons += [f"{status}: {ranges(found, most=2)}" for status, found in by_status.items()]
    if raw and not reasons:
        reasons.append("nothing new has landed")
    return reasons


def _say_ran(ran: Sequence[Ran]) -> None:
    if not ran:
        return
    counts = ("periods", "published", "unchanged", "rows", "deduplicated", "seconds")
    left_out_first = ("version", "deduplicated", "periods", "seconds", "unchanged")
    rows = new_table("table", "version", *counts, "publication", numbers=counts, drop=left_out_first)
    show = short_ids(typed_storage())
    for step in ran:
        published = step.days - step.unchanged
        deduplicated = "" if step.deduplicated is None else f"{step.deduplicated:,}"
        cells = (f"{step.days:,}", f"{published:,}", f"{step.unchanged:,}", f"{step.rows:,}", deduplicated)
        versions, publications = ", ".join(step.versions), ", ".join(map(show, step.publications))
        rows.add_row(step.step, versions, *cells, f"{step.seconds:.1f}", publications)
    say(rows)
    for table, days in (item for step in ran for item in step.appended_elsewhere.items()):
        late = ranges(days)
        say(f"{table}: rows were appended to {late} as well; what is computed from it is stale: run {late} too")
    for day, found in (item for step in ran for item in step.verified.items()):
        say(f"{day} was extended by a stream; verified: {found}")
    if all(step.unchanged == step.days and not step.verified and not step.appended_elsewhere for step in ran):
        say("Nothing was computed: every day was published before, from the same inputs by the same code.")


def _waiting_json(waiting: NotTakenIn) -> dict[str, object]:
    files = {str(day): count for day, count in waiting.files.items()}
    return {"table": waiting.table, "files": files, "problem": waiting.problem}


def _plan_json(each: PlannedStep) -> dict[str, object]:
    from backfill_assets.plan.records import Why, days_of
    from backfill_assets.plan.scope import status_of

    why = each.why
    return {
        "step": each.name,
        "cadence": each.cadence.value,
        "version": each.version or None,
        "days": {str(day): status_of(why.get(day)).value for day in each.all_days},
        "unchanged": days_of(each.skipped),
        "input_rebuilt": days_of(each.rebuild.get(Why.INPUT_REBUILT, ())),
        "later": days_of(each.later),
        "earlier": days_of(each.earlier),
        "to_ingest": {str(day): count for day, count in each.to_ingest.items()},
        "rolled_back": {str(day): by.publication for day, by in each.rolled_back.items()},
    }
