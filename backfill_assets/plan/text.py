"""A plan in words: the lines and rows that terminal, Markdown and the UI show alike. Pure."""

from __future__ import annotations

import shlex
from datetime import datetime

from backfill_assets.days import Cadence
from backfill_assets.plan.basis import PlanDrift
from backfill_assets.plan.boundaries import boundary_lines
from backfill_assets.plan.durations import estimate_line, together
from backfill_assets.plan.records import Estimate, Lookback, Pinned, Plan, PlannedStep, Ranges, Scope, about, days_of
from backfill_assets.text import (
    UNKNOWN,
    bullets,
    format_count,
    format_duration,
    format_first,
    format_size,
    markdown_table,
)

STEP_COLUMNS = ("table", "to rebuild", "why", "skipped", "rows read", "read", "rows written", "written", "time")
STEP_NUMBERS = ("to rebuild", "skipped", "rows read", "read", "rows written", "written", "time")
PINNED_COLUMNS = ("reads", "version", "days", "files")
_MOST_RANGES = 3
_FLAGS = {
    Scope.SOURCE: "--refresh-source",
    Scope.WHOLE: "--source-too",
    Scope.DOWNSTREAM: "--only-downstream",
}
_OPTIONS = {
    Scope.ONWARDS: "without --source-too and --only-downstream",
    **{scope: f"with {flag}" for scope, flag in _FLAGS.items()},
}


def headline(plan: Plan) -> str:
    """What the plan is, in one sentence."""
    version = f" by {plan.asked.version}" if plan.asked.version else ""
    tables = [step for step in plan.steps if step.rebuild]
    if not tables:
        return f"{plan.asked.target} {plan.asked.days}{version}: nothing to rebuild, every day is fresh."
    daily = sum(len(step.days) for step in tables if step.cadence is Cadence.DAILY)
    longer = sum(len(step.days) for step in tables) - daily
    counts = [format_count(count, noun) for count, noun in ((daily, "day"), (longer, "period")) if count]
    of = format_count(len(tables), "step")
    return f"{plan.asked.target} {plan.asked.days}{version}, {plan.asked.scope}: {' and '.join(counts)} of {of}."


def command_of(plan: Plan, *expected: str) -> str:
    """The command that asks for the same days, versions and scope again; what came from a file is in that file.

    A plan that leaves days out is that of a timeline, which does not hold them.
    """
    if not plan.terms.empty:
        return "backfill plan -f FILE"
    asked = plan.asked
    expectations = [word for each in expected for word in ("--expect", each)]
    if asked.leaves:
        return shlex.join(["backfill", "publish", "TIMELINE", *expectations])
    options = {"--days": asked.days, "--version": asked.version}
    words = [word for name, value in options.items() if value for word in (name, value)]
    words += [_FLAGS[asked.scope]] if asked.scope in _FLAGS else []
    words += ["--force"] if asked.force else []
    return shlex.join(["backfill", "plan", asked.target, *words, *expectations])


def step_rows(plan: Plan) -> list[tuple[str, ...]]:
    """A row for each step, in build order."""
    return [_step_row(step) for step in plan.steps]


def pinned_rows(plan: Plan, now: datetime) -> list[tuple[str, ...]]:
    return [
        (each.table, _version(each), f"{len(days_of(each.days)):,}: {ranges(each.days)}", _kept_text(each, now))
        for each in plan.pinned
    ]


def as_of_lines(plan: Plan) -> list[str]:
    """Reference data that is looked back for."""
    return [_as_of(each) for each in plan.as_of]


def cost_line(plan: Plan) -> str:
    """Time and money of computing the days alone, and of which steps neither is known."""
    if not any(step.rebuild for step in plan.steps):
        return "It costs nothing."
    unknown = f"no earlier publication of {', '.join(plan.cost.unknown)} was timed: {UNKNOWN}"
    core_seconds = plan.cost.core_seconds
    all_unknown = all(step.name in plan.cost.unknown for step in plan.steps if step.rebuild)
    if core_seconds is None or all_unknown:
        return f"Computing the days: {unknown}."
    cores = format_count(plan.cost.cores, "core")
    time = f"{about(plan.cost.time)} on {cores}, {core_seconds:,.0f} core seconds"
    price = "set BACKFILL_CORE_HOUR_PRICE to have a cost" if plan.cost.money is None else f"costs {plan.cost.money}"
    more = f"; {unknown}" if plan.cost.unknown else ""
    return f"Computing the days: {time}, {price}{more}."


def time_lines(plan: Plan) -> list[str]:
    """What a campaign takes as a whole and by step; nothing for a plan that rebuilds nothing."""
    return [estimate_line(plan)] if plan.times else []


def expectation_lines(plan: Plan) -> list[str]:
    """What is expected of the difference, as it was written."""
    return [f"Expected: {each}" for each in plan.expectations]


def terms_lines(plan: Plan) -> list[str]:
    """How it is to be carried out, as its file says; nothing of a plan that was made without one."""
    terms = plan.terms
    named = (
        ("", ": ".join(filter(None, (terms.title, terms.reason)))),
        ("Staged in waves: ", terms.waves),
        ("Stops beyond: ", terms.limits),
        ("To be approved by ", _approvers(plan)),
        ("Notices are for: ", ", ".join(terms.notices)),
    )
    return [f"{words}{value}" for words, value in named if value]


def _approvers(plan: Plan) -> str:
    names, needed = plan.terms.approvers, plan.terms.approvals
    if not names:
        return f"{needed} people" if needed > 1 else ""
    return f"{needed} of {', '.join(names)}" if len(names) > needed else " and ".join(names)


def scope_line(plan: Plan) -> str:
    """Which scope fits, and whether it is the one that the plan has."""
    if plan.recommended is None:
        return "Scope: nothing has changed, in the table or in what it is computed from."
    fits = plan.recommended.scope is plan.asked.scope
    option = _OPTIONS[plan.recommended.scope]
    return f"Scope: {plan.recommended.scope} fits ({plan.recommended.because}){'.' if fits else f': plan {option}.'}"


def after_line(plan: Plan) -> str:
    """How the plan can be undone after it was carried out."""
    return f"What the days hold now can be put back for {plan.rollback_window_days} days after they are replaced."


def markdown(plan: Plan, now: datetime, moved: PlanDrift | None = None) -> str:
    """The whole plan, for a page, a pull request, or metadata in the UI."""
    parts = [f"## {plan.id}", headline(plan)]
    if moved:
        parts += ["**It has moved since it was made; make it again:**", bullets(moved.lines())]
    if plan.steps:
        parts.append(markdown_table(STEP_COLUMNS, step_rows(plan), STEP_NUMBERS))
    parts.append(cost_line(plan))
    if plan.times:
        times = {**plan.times, "together": together(plan.times)}
        rows = [(step.replace("_", " "), about(time)) for step, time in times.items()]
        parts.append(markdown_table(("as a campaign", "time"), rows, ("time",)))
    if plan.pinned:
        parts.append(markdown_table(PINNED_COLUMNS, pinned_rows(plan, now)))
    if lines := [*source_lines(plan), *boundary_lines(plan), *as_of_lines(plan)]:
        parts.append(bullets(lines))
    if said := [*expectation_lines(plan), *terms_lines(plan)]:
        parts.append(bullets(said))
    if plan.findings:
        found = [(each.severity, each.message, each.next_step) for each in plan.findings]
        parts.append(markdown_table(("finding", "what", "what to do"), found))
    parts += [scope_line(plan), after_line(plan)]
    return "\n\n".join(parts) + "\n"


def source_lines(plan: Plan) -> list[str]:
    """What each source has changed in the files of an arrival day, a line each."""
    return [
        f"{step.name}: files that landed on {day}: {found.changed} changed, {found.gone} gone, {found.new} new"
        for step in plan.steps
        for day, found in step.source_files.items()
    ]


def ranges(found: Ranges) -> str:
    return format_first(found, _MOST_RANGES)


def _step_row(step: PlannedStep) -> tuple[str, ...]:
    why = "; ".join(f"{why}: {ranges(found)}" for why, found in step.rebuild.items())
    volumes = _volumes(step.estimate) if step.rebuild else ("", "", "", "", "")
    return (", ".join(step.tables), f"{len(step.days):,}", why, f"{len(days_of(step.skipped)):,}", *volumes)


def _volumes(estimate: Estimate) -> tuple[str, ...]:
    return (
        UNKNOWN if estimate.rows_read is None else f"{estimate.rows_read:,}",
        format_size(estimate.bytes_read),
        UNKNOWN if estimate.rows_written is None else f"{estimate.rows_written:,}",
        format_size(estimate.bytes_written),
        UNKNOWN if estimate.time is None else format_duration(estimate.time.median),
    )


def _version(pinned: Pinned) -> str:
    return "never published" if pinned.version is None else str(pinned.version)


def _kept_text(pinned: Pinned, now: datetime) -> str:
    """How long the files of a pinned version can be relied on, and which of its days have none."""
    if pinned.version is None:
        return ""
    absent = f"never published: {ranges(pinned.absent)}" if pinned.absent else ""
    if set(days_of(pinned.absent)) >= set(days_of(pinned.days)):
        return absent
    return "; ".join(filter(None, (_may_go_text(pinned.files_may_go, now), absent)))


def _may_go_text(files_may_go: datetime | None, now: datetime) -> str:
    if files_may_go is None:
        return "all in main"
    days = (files_may_go - now).days
    return f"may go in {format_count(days, 'day')}" if days >= 0 else "may be gone"


def _as_of(each: Lookback) -> str:
    absent = f"; not there: {ranges(each.absent)}" if each.absent else ""
    looks = f"{-each.first} to {-each.last} days back" if each.last else f"up to {-each.first} days back"
    return f"{each.step} looks for {each.table} {looks}: reads {ranges(each.days) or 'nothing'}{absent}"
