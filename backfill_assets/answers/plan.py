"""What a plan would rebuild and why, its cost, its inputs, and what stops it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from backfill_assets import clock
from backfill_assets.campaign.plan_file import CheckedPlanFile
from backfill_assets.plan.basis import PlanDrift
from backfill_assets.plan.code_change import code_facts, code_section
from backfill_assets.plan.cost import Estimated, cost_words, times_table
from backfill_assets.plan.records import (
    Lookback,
    Pinned,
    Plan,
    PlannedBoundary,
    PlannedStep,
    PlanTerms,
    Scope,
    about,
    days_of,
)
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, Toned, size
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import format_count, format_first, format_scope

_MOST_RANGES = 3
_TONES = {"stops": Tone.BAD, "warns": Tone.WARN}
_SCOPES: Mapping[Scope, str] = {
    Scope.SOURCE: "from its changed files on to all that is computed from it",
    Scope.WHOLE: "all that it is computed from, and all that is computed from it",
    Scope.ONWARDS: "and what is computed from it",
    Scope.DOWNSTREAM: "only what is computed from it",
}
_VOLUMES = ("rows read", "read", "rows written", "written", "time")


def plan_answer(plan: Plan, now: datetime, moved: PlanDrift | None = None) -> Answer:
    parts = (*_what_it_is(plan, moved), *_findings(plan), *_what_it_takes(plan), *_what_it_reads(plan, now))
    if moved:
        carried_on: tuple[str, ...] = (plan.command(),)
    else:
        carried_on = (f"backfill run {plan.id}",) if plan.rebuilds and not plan.stopped else ()
    answer = Answer(headline(plan), parts, code_section(plan.code), next=carried_on)
    return replace(answer, brief=_brief(plan, answer, moved))


def _brief(plan: Plan, answer: Answer, moved: PlanDrift | None) -> Answer:
    drift = () if moved is None else (Fact("since then", moved.lines() or "nothing has moved"),)
    facts = (
        Fact("why", _why(plan)),
        *((Fact("cost", cost_line(plan)),) if plan.rebuilds else ()),
        *code_facts(plan.code),
        *((Fact("expected", [str(each) for each in plan.expectations]),) if plan.expectations else ()),
        *drift,
        *((Fact("risk", _risk(plan)),) if plan.rebuilds and not plan.stopped else ()),
    )
    stops = [*_order(plan), *(line for line in _findings(plan) if line.tone is Tone.BAD)]
    more = Line(f"Each table with its days, inputs and times: backfill plan {plan.id} --long", Tone.QUIET)
    return Answer(answer.title, (*facts, *stops, *_other_scope(plan), more), next=answer.next)


def _why(plan: Plan) -> list[str]:
    found: dict[Cause, list[str]] = {}
    for step in plan.steps:
        for why in step.rebuild:
            found.setdefault(why, []).extend(step.tables)
    return [f"{why.value}: {format_first(tables, _MOST_RANGES)}" for why, tables in found.items()]


def cost_line(plan: Plan) -> str:
    cost, timed = plan.cost, not {step.name for step in plan.steps if step.rebuild} <= set(plan.cost.unknown)
    words = cost_words(about(cost.time) if timed else "time unknown", cost, cost.money if timed else None)
    return words if cost.price_per_core_hour is not None else f"{words}; for money set BACKFILL_CORE_HOUR_PRICE"


def _risk(plan: Plan) -> object:
    warnings = [each for each in plan.findings if each.severity == "warns"]
    undo = f"You can undo it for {format_count(plan.rollback_window_days, 'day')}."
    if not warnings:
        return f"No finding speaks against it. {undo}"
    more = f" And {format_count(len(warnings) - 1, 'more warning')}." if len(warnings) > 1 else ""
    return Toned(f"{warnings[0].message}{more} {undo}", Tone.WARN)


def _other_scope(plan: Plan) -> Iterator[Line]:
    if plan.recommended is not None and plan.recommended.scope is not plan.asked.scope:
        fits = f"The scope {plan.recommended.scope} fits: {plan.recommended.because}."
        yield Line(fits, Tone.WARN, f"--scope {plan.recommended.scope}", name="scope that fits")


def plan_file_answer(found: CheckedPlanFile) -> Answer:
    facts = (
        Fact("file", found.path),
        Fact("valid", found.valid),
        Fact("may be carried out", found.exit_code == 0),
    )
    known = {each.message for each in found.plan.findings} if found.plan else set()
    wrong = tuple(
        Line(f"{found.path}: {each.message}", Tone.BAD, each.hint or "")
        for each in found.problems
        if each.message not in known
    )
    now = found.planned_at or clock.now()
    shown = () if found.plan is None else (replace(plan_answer(found.plan, now), name="plan"),)
    return Answer(f"{found.path} {_verdict(found)}", (*facts, *wrong), shown, name=found.path)


def plan_files_answer(found: Sequence[CheckedPlanFile]) -> Answer:
    rows = [
        (each.path, each.valid, each.exit_code == 0, Id(each.plan.id) if each.plan is not None else None)
        for each in found
    ]
    files = Grid("files", ("file", "valid", "may be carried out", "plan"), rows)
    return Answer(parts=(files,), sections=tuple(map(plan_file_answer, found)))


def headline(plan: Plan) -> str:
    version = f" by {plan.asked.version}" if plan.asked.version else ""
    what = f"{plan.asked.target} {plan.asked.days}{version}"
    steps = [step for step in plan.steps if step.rebuild]
    if not steps:
        closed = any(each.kind == Cause.CLOSED.value for each in plan.findings)
        why = "what is not fresh is closed" if closed else "every day is fresh"
        return f"{what}: nothing to rebuild, {why}."
    days = format_scope((step.cadence, step.days) for step in steps for _ in step.tables)
    return f"Rebuild {what}, {_SCOPES[plan.asked.scope]}: {days}."


def terms_facts(terms: PlanTerms) -> Iterator[Fact]:
    needed, names = terms.approvals, list(terms.approvers)
    found = {
        "title": terms.title,
        "reason": terms.reason,
        "waves": terms.waves,
        "limits": terms.limits,
        "approvers": names,
        "approvals needed": needed if needed > 1 or names else None,
        "notices for": list(terms.notices),
    }
    return (Fact(name, value) for name, value in found.items() if value)


def boundaries_table(found: Sequence[PlannedBoundary]) -> Grid:
    rows = [
        (list(of.tables), Days.of(days_of(of.days)), of.raw, list(of.versions), at.topic, at.partition, at.next_offset)
        for of in found
        for at in of.positions
    ]
    columns = ("table", "days", "raw", "versions", "topic", "partition", "next offset")
    return Grid("boundaries", columns, rows, title="Read from streams", drop=("versions", "raw"))


def _verdict(found: CheckedPlanFile) -> str:
    if not found.valid:
        return "is not a valid plan file."
    return "may not be carried out." if found.problems else "may be carried out."


def _what_it_is(plan: Plan, moved: PlanDrift | None) -> Iterator[Part]:
    yield Fact("plan", Id(plan.id))
    yield Fact("stopped", plan.stopped)
    if moved is not None:
        yield Fact("moved", moved.lines())
        yield Line("It has moved since it was made.", Tone.BAD) if moved else Line("Nothing has moved.", Tone.GOOD)
    yield from terms_facts(plan.terms)
    yield Fact("expected", [str(each) for each in plan.expectations])
    yield Fact("scope", plan.asked.scope.value)
    yield from _order(plan)
    if plan.recommended is None:
        yield Line("Nothing has changed, in the table or in what it is computed from.", name="scope that fits")
    yield from _other_scope(plan)
    if plan.recommended is not None and plan.recommended.scope is plan.asked.scope:
        yield Line(f"This scope fits: {plan.recommended.because}.", name="scope that fits")


def _order(plan: Plan) -> Iterator[Line]:
    if plan.asked.where:
        yield Line(f"Only rows with {plan.asked.where}: all others of {plan.asked.target} stay as they are.")
        if whole := [each.name for each in plan.steps if each.rebuild and plan.asked.target not in each.tables]:
            yield Line(f"Whole, since their rows may be made of many: {', '.join(whole)}.")
    if plan.asked.newest_first:
        yield Line("The newest days come first.")
    for each in plan.ahead:
        days = format_first(each.days, _MOST_RANGES)
        yield Line(f"{each.step} looks back to {each.table}: {days} of it come before the days that read them.")


def _findings(plan: Plan) -> Iterator[Line]:
    for each in plan.findings:
        yield Line(f"{each.severity}: {each.message}", _TONES[each.severity], each.next_step)


def _what_it_takes(plan: Plan) -> Iterator[Part]:
    columns = ("table", "to rebuild", "why", "skipped", *_VOLUMES)
    rows = [_step_row(each) for each in plan.steps]
    if rows:
        yield Grid("steps", columns, rows, drop=("skipped", "rows written", "rows read", "written", "read"))
    if not plan.rebuilds:
        return
    cost = plan.cost
    timed = not {step.name for step in plan.steps if step.rebuild} <= set(cost.unknown)
    takes = {"takes": Estimated(cost.time if timed else None), "cores": cost.cores}
    more = {"core seconds": round(cost.core_seconds)} if timed and cost.core_seconds is not None else {}
    money = {} if cost.money is None else {"costs": cost.money}
    yield Fact("computing the days", {**takes, **more, **money})
    if cost.unknown:
        yield Line(f"Its time is unknown: no earlier publication of {', '.join(cost.unknown)} was timed.")
    if cost.money is None:
        yield Line("Set BACKFILL_CORE_HOUR_PRICE to have a cost.", Tone.QUIET)
    if plan.times:
        yield times_table(plan)
    yield Fact("can be undone for", format_count(plan.rollback_window_days, "day"))


def _step_row(step: PlannedStep) -> tuple[object, ...]:
    why = {reason.value: Days.of(days_of(ranges)) for reason, ranges in step.rebuild.items()}
    found = step.estimate
    unknown = "unknown"
    volumes: tuple[object, ...] = (
        unknown if found.rows_read is None else found.rows_read,
        size(found.bytes_read),
        unknown if found.rows_written is None else found.rows_written,
        size(found.bytes_written),
        Estimated(found.time),
    )
    shown = volumes if step.rebuild else (None,) * len(volumes)
    return (list(step.tables), len(step.days), why, Days.of(days_of(step.skipped)), *shown)


def _what_it_reads(plan: Plan, now: datetime) -> Iterator[Part]:
    rows = [(each.table, each.version, Days.of(days_of(each.days)), _files(each, now)) for each in plan.pinned]
    if rows:
        yield Grid("reads", ("table", "version", "days", "files"), rows, title="Read as it is now")
    landed = [
        (step.name, day, files.changed, files.gone, files.new)
        for step in plan.steps
        for day, files in step.source_files.items()
    ]
    if landed:
        title = "Landed files that differ from those that raw has read"
        yield Grid("source files", ("table", "arrival day", "changed", "gone", "new"), landed, title=title)
    if plan.boundaries:
        yield boundaries_table(plan.boundaries)
        yield Line("Events beyond these offsets stay where they are: their days are brought up to date afterwards.")
    for each in plan.as_of:
        yield Line(_as_of(each))


def _files(pinned: Pinned, now: datetime) -> str:
    if pinned.version is None:
        return "never published"
    absent = f"never published: {format_first(pinned.absent, _MOST_RANGES)}" if pinned.absent else ""
    if set(days_of(pinned.absent)) >= set(days_of(pinned.days)):
        return absent
    return "; ".join(filter(None, (pinned.in_place or _may_go(pinned.files_may_go, now), absent)))


def _may_go(files_may_go: datetime | None, now: datetime) -> str:
    if files_may_go is None:
        return "all in main"
    days = (files_may_go - now).days
    return f"may go in {format_count(days, 'day')}" if days >= 0 else "may be gone"


def _as_of(each: Lookback) -> str:
    if each.states:
        held = ", ".join(f"{state} on {format_first(days, _MOST_RANGES)}" for state, days in each.states.items())
        return f"{each.step} reads {each.table} as of each day: that of {held}"
    absent = f"; not there: {format_first(each.absent, _MOST_RANGES)}" if each.absent else ""
    looks = f"{-each.first} to {-each.last} days back" if each.last else f"up to {-each.first} days back"
    reads = format_first(each.days, _MOST_RANGES) or "nothing"
    return f"{each.step} looks for {each.table} {looks}: reads {reads}{absent}"
