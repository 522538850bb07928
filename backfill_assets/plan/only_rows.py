"""A plan that computes only some rows of its days: by which version, and what speaks against it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.row_filter import read_filter
from backfill_assets.plan.records import PlanRequest, Scope
from backfill_assets.plan.situation import PlanContext
from backfill_assets.state.status import published_version
from backfill_assets.text import format_ranges

_MOST_RANGES = 3


def of_some_rows(asked: PlanRequest, situation: PlanContext) -> PlanRequest:
    """``asked`` in full: its rows as they are read back, and the version that its days were published with.

    Raises :class:`InvalidRequest` for rows that cannot be chosen, and for days whose other rows cannot be carried over.
    """
    if not asked.where:
        return asked
    step, days = situation.step_of(asked.target), f"--days {asked.days}"
    _require_computed(step, asked, situation)
    table = next(each for each in step.tables if each.name == asked.target)
    chosen = read_filter(asked.where, table)
    _require_columns(step, table, chosen.columns)
    return asked.model_copy(update={"where": str(chosen), "version": _version(step, asked, situation, days)})


def _require_computed(step: Step, asked: PlanRequest, situation: PlanContext) -> None:
    if asked.scope is not Scope.ONWARDS:
        raise InvalidRequest(
            f"--where is about rows of {step.name} itself, and --scope {asked.scope} is not.",
            hint="Leave --scope out; what is computed from the table follows whole.",
        )
    what = ""
    if step.source:
        what = "its rows are taken in as they land"
    elif step.external:
        what = "others write it"
    elif any(situation.step_of(read.table).source for read in step.reads):
        what = "every row that raw received is accounted for by whole days"
    if what:
        raise InvalidRequest(
            f"No rows of {step.name} can be rebuilt by themselves: {what}.",
            hint=f"Plan whole days: backfill plan {asked.target} --days {asked.days}; or rows of a table made of it.",
        )


def _require_columns(step: Step, table: Table, columns: tuple[str, ...]) -> None:
    for other in step.tables:
        if lacks := [name for name in columns if name not in other.contract.fields()]:
            raise InvalidRequest(
                f"{other.name} is built with {table.name}, and has no {lacks[0]} to choose rows by.",
                hint="Plan whole days: leave --where out.",
            )


def _version(step: Step, asked: PlanRequest, situation: PlanContext, days: str) -> str:
    by: dict[str, list[date]] = {}
    for day in step.cadence.starts(DayRange.parse(asked.days)):
        known = _is_known(step, day, situation)
        version = published_version(step, day, situation.observed.states) if known else ""
        by.setdefault(version or "", []).append(day)
    if absent := by.pop("", []):
        raise InvalidRequest(
            f"{step.name} is not as published on {format_ranges(absent, _MOST_RANGES)}, or never was: which rows to "
            "carry over is not known.",
            hint=f"Build these days whole: backfill run {step.name} {_days_option(absent)}",
        )
    if len(by) > 1:
        each = "; ".join(f"{version}: {format_ranges(found, _MOST_RANGES)}" for version, found in sorted(by.items()))
        raise InvalidRequest(
            f"Rows of {step.name} are rebuilt by the version of their day, and {days} has several: {each}.",
            hint="Plan the days of one version at a time.",
        )
    (version,) = by or {step.current: []}
    _require_version(step, asked, version, by)
    return version


def _is_known(step: Step, day: date, situation: PlanContext) -> bool:
    observed = situation.observed
    states = {key: observed.states.get(key) for key in (TableDay(name, day) for name in step.table_names)}
    return all(state and state.content and state.physical == observed.now(key) for key, state in states.items())


def _require_version(step: Step, asked: PlanRequest, version: str, by: Mapping[str, list[date]]) -> None:
    if version not in {each.name for each in step.versions}:
        raise InvalidRequest(
            f"{step.name} was published with {version} on {format_ranges(by[version], _MOST_RANGES)}, which is not "
            "declared any more: some rows by another version would mix two logics in a day.",
            hint=f"Declare {version} again, or plan whole days: leave --where out.",
        )
    if asked.version not in ("", version):
        raise InvalidRequest(
            f"{step.name} was published with {version} on these days: rows by {asked.version} would mix two logics.",
            hint=f"Leave --version out for rows by {version}; or plan whole days with --version {asked.version}.",
        )


def _days_option(days: list[date]) -> str:
    return f"--days {DayRange(days[0], days[-1])}"
