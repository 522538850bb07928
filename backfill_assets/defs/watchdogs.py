"""Watchdogs: a check for each table that reads published days again, and the job that evaluates it.

Dagster would run standalone checks (``multi_asset_check``) with every run of their tables and read each day twice.
"""

# No postponed annotations here: Dagster resolves config and resources from the annotations themselves.
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial

import dagster as dg
from deltalake.exceptions import DeltaError
from pydantic import Field

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.defs.checks import (
    BESIDE,
    BROKEN,
    LOST,
    PHYSICAL,
    PUBLICATION,
    RULES,
    WATCHDOG,
    again,
    check_key,
    publication_of,
    verdict_of,
)
from backfill_assets.defs.dagster_internals import Target, newest_evaluations, targets
from backfill_assets.defs.metadata import rules_table
from backfill_assets.defs.own_lakehouse import lakehouse_job, nightly_schedule
from backfill_assets.defs.partitions import PartitionedTables
from backfill_assets.defs.resources import Backfill
from backfill_assets.errors import BackfillError, LakehouseUnusable, SparkLost
from backfill_assets.lakehouse.records import DayState
from backfill_assets.model.declaration import Table
from backfill_assets.quality import watchdogs
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.text import format_count
from backfill_assets.upkeep.watch import Watch, WatchedDay

JOB, STEP, SCHEDULE = "watchdogs", "look", "watchdogs_every_night"
CRON_VARIABLE = "BACKFILL_WATCHDOG_CRON"
_FOUR_IN_THE_MORNING = "0 4 * * *"
_BEHIND = "Rows came since it was published, and the day is not built from them yet. "
_LOOKED_UNTIL = "backfill_assets/looked_until"
_LEAST_LOOKED_AT, _EVALUATIONS_A_DAY = 500, 4


class WatchOptions(dg.Config):
    """Which days (``2017-03-01..2017-03-07``, several with commas) and tables; empty for its own choice of days."""

    days: str = ""
    tables: list[str] = Field(default_factory=list)


def watchdog_job(tables: PartitionedTables) -> dg.JobDefinition:
    return lakehouse_job(
        JOB,
        STEP,
        "Reads published days again and compares them with the publication log and with each other. Choose days "
        f"and tables in the launchpad; without, it takes what is new and one day in {TURNS} of the rest.",
        WatchOptions,
        partial(_look, tables),
    )


def watchdog_schedule(job: dg.JobDefinition) -> dg.ScheduleDefinition:
    description = (
        "Reads what was published since the last time, days of which a file is gone or of another size, and one "
        "thirtieth of all history. Writes nothing."
    )
    return nightly_schedule(SCHEDULE, job, _FOUR_IN_THE_MORNING, CRON_VARIABLE, description)


def unchanged_watchdogs(
    instance: dg.DagsterInstance, table: str, days: Sequence[BuiltDay], now: Mapping[str, Target]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Newest verdicts on reused ``days``, reported again: the run planned these checks."""
    publications = {str(day.day): day.publication for day in days if day.reused}
    for day, verdict in newest_verdicts(instance, table, publications).items():
        yield again(verdict, now.get(day), "unchanged since it was read")


def newest_verdicts(
    instance: dg.DagsterInstance, table: str, publications: Mapping[str, str]
) -> dict[str, dg.AssetCheckEvaluation]:
    if not publications:
        return {}
    key = check_key(table, WATCHDOG)
    limit = max(_LEAST_LOOKED_AT, _EVALUATIONS_A_DAY * len(publications))
    newest = newest_evaluations(instance, key, limit)
    found = {str(verdict.partition): verdict for verdict in reversed(newest)}
    # A night reads a share of all days: an older day's verdict may lie beyond the limit.
    for day in publications.keys() - found.keys() if len(newest) == limit else ():
        found.update(zip([day], newest_evaluations(instance, key, day=day), strict=False))
    return {day: found[day] for day, of in publications.items() if day in found and publication_of(found[day]) == of}


def _look(known: PartitionedTables, context: dg.OpExecutionContext, config: WatchOptions, backfill: Backfill) -> None:
    watch = backfill.watch()
    if watch is None:
        context.log.info("Nothing was published yet.")
        return
    newest = watch.log.head().version
    chosen = _configured_days(config, known) if config.days else _own_choice(context.instance, watch, config, known)
    problems: dict[str, str] = {}
    for days, tables in _same_days(known, chosen).items():
        context.log.info(f"{', '.join(table.name for table in tables)}: {format_count(len(days), 'day')}, read again")
        verdicts = _look_at(watch, tables, days, problems)
        for table in tables:
            now = targets(context.instance, table.name, [str(day) for day in days])
            for day in (each for each in verdicts if each.table == table.name):
                context.log_event(_evaluation(day, now.get(str(day.day))))  # type: ignore[arg-type]  # it takes them
    if problems:
        raise LakehouseUnusable(
            "\n".join(f"{table} cannot be looked at: {problem}" for table, problem in problems.items()),
            hint="All other tables were looked at. If a Delta log is damaged, put its file back from a backup.",
        )
    if not config.days and not config.tables:
        context.instance.daemon_cursor_storage.set_cursor_values({_LOOKED_UNTIL: f"{newest} {watch.log.identity}"})


def _look_at(watch: Watch, tables: Sequence[Table], days: Sequence[date], problems: dict[str, str]) -> list[WatchedDay]:
    try:
        return watch.look(tables, days)
    except SparkLost:
        raise
    except (BackfillError, DeltaError) as error:
        if len(tables) == 1:
            problems[tables[0].name] = str(error).partition("\n")[0]
            return []
    return [found for table in tables for found in _look_at(watch, [table], days, problems)]


def _asked_tables(config: WatchOptions, known: PartitionedTables) -> list[str]:
    return [known.catalog.table(name).name for name in config.tables] or list(known.by_table)


def _configured_days(config: WatchOptions, known: PartitionedTables) -> dict[str, list[date]]:
    days = {day for text in config.days.split(",") for day in DayRange.parse(text.strip())}
    return {name: known.catalog.step(name).cadence.starts(days) for name in _asked_tables(config, known)}


def _own_choice(
    instance: dg.DagsterInstance, watch: Watch, config: WatchOptions, known: PartitionedTables
) -> dict[str, list[date]]:
    log, asked = watch.log, _asked_tables(config, known)
    states = log.day_states(log.head(), asked).values()
    shown = [state for state in states if known.builds(state.table, state.day)]
    place = instance.daemon_cursor_storage.get_cursor_values({_LOOKED_UNTIL}).get(_LOOKED_UNTIL, "")
    until, altered = _looked_until(place, log.identity), watch.altered(asked)
    return days_to_watch(shown, altered, looked_until=until, tonight=clock.today())


def _looked_until(place: str, log: str) -> int:
    """-1 for another log at the same place."""
    until, _, of = place.partition(" ")
    return int(until) if until and of in ("", log) else -1


def _same_days(known: PartitionedTables, days: Mapping[str, Sequence[date]]) -> dict[tuple[date, ...], list[Table]]:
    groups: dict[tuple[date, ...], list[Table]] = {}
    for name, days_of_table in days.items():
        groups.setdefault(tuple(days_of_table), []).append(known.catalog.table(name))
    return groups


def _evaluation(day: WatchedDay, target: Target | None) -> dg.AssetCheckEvaluation:
    words = _BEHIND * day.is_behind + watchdogs.in_words(day.rules)
    about = {
        RULES: rules_table(day.rules),
        "rows": day.rows,
        PUBLICATION: day.publication,
        PHYSICAL: day.physical,
        **({} if day.passed else {BROKEN: ",".join(rule.rule for rule in day.rules if not rule.passed)}),
        **({LOST: True} if day.lost else {}),
        **({BESIDE: day.beside} if day.beside and not day.passed else {}),
    }
    passed, is_warning = day.passed, not (day.is_wrong or day.passed)
    return verdict_of(
        day.table, WATCHDOG, str(day.day), words, about, passed=passed, is_warning=is_warning, target=target
    )


TURNS = 30
"""Nights in which every published day is looked at once."""


def days_to_watch(
    states: Iterable[DayState], altered: Mapping[str, Collection[date]], *, looked_until: int, tonight: date
) -> dict[str, list[date]]:
    found: dict[str, set[date]] = {}
    for state in (each for each in states if each.content is not None):
        day = state.day
        if state.sequence > looked_until or _turn(day, tonight) or day in altered.get(state.table, ()):
            found.setdefault(state.table, set()).add(day)
    return {table: sorted(days) for table, days in sorted(found.items())}


def _turn(day: date, tonight: date) -> bool:
    return day.toordinal() % TURNS == tonight.toordinal() % TURNS
