"""What the new rows of a day change in the tables of a step: they are computed from the new rows of its inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.judge.engine import DayFiles, of_days
from backfill_assets.judge.second_look import with_second_look
from backfill_assets.lakehouse.delta_log import AddedFile, read_log
from backfill_assets.lakehouse.timelines import StagedAs
from backfill_assets.landing.deletions import days_with_deletions
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DUPLICATES, OCCURRENCE, Step, Table, Version
from backfill_assets.model.refinement import Refinement, accepted, rejected
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild.decide import wanted
from backfill_assets.rebuild.extension import extension_plan as plan
from backfill_assets.rebuild.extension.earlier_states import find_earlier_states
from backfill_assets.rebuild.extension.extension_plan import EarlierState
from backfill_assets.rebuild.extension.extension_rows import (
    KeyedFiles,
    changed_keys,
    count_rows_of_keys,
    key_of_landed,
    keys_in,
    of_keys,
)
from backfill_assets.rebuild.extension.table_growth import (
    Extended,
    Files,
    GrownTable,
    Growth,
    RefinedKeys,
    Wanted,
    facts_of,
    gain,
    grow,
    judge,
)
from backfill_assets.rebuild.stage import side_by_side
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.text import format_count

# ------------------------------------------------------------------ raw rows become typed rows


def extend_refined(
    growth: Growth, build: StepBuild, version: Version, days: Sequence[date], pin: Pin, now: Wanted
) -> Extended:
    """Extend ``days`` of the step that refines raw rows: winners and rejected rows."""
    refinement = version.transform
    if not isinstance(refinement, Refinement) or OCCURRENCE in refinement.key:
        return Extended(reasons=dict.fromkeys(days, "its key numbers identical lines"))
    raw = version.reads[0].table
    corrected = days_with_deletions(pin.states, growth.lake.catalog.table(raw), days)
    reasons = {day: why for day in days if (why := growth.why_not(build.step, version, day))}
    reasons |= dict.fromkeys(corrected, f"the source has taken rows of {raw} back")
    rest = [day for day in days if day not in reasons]
    files = _input_files(growth, raw, rest, pin)
    gained = _gained(growth, build, version, raw, rest, files, pin)
    reasons |= {day: f"which rows of {raw} are new is not known" for day in rest if day not in gained}
    done = Extended(reasons=reasons)
    if gained:
        _extend_refined(growth, build, version, refinement, gained, files, pin, now, done)
    return done


def _input_files(growth: Growth, table: str, days: Sequence[date], pin: Pin) -> Files:
    version = pin.inputs[table].version
    if version is None or not days:
        return dict.fromkeys(days, ())
    return read_log(growth.lake.storage, table, version).of_days(days)


def _gained(
    growth: Growth, build: StepBuild, version: Version, raw: str, days: Sequence[date], files: Files, pin: Pin
) -> dict[date, tuple[AddedFile, ...]]:
    """The files that each day of ``raw`` gained since its refined rows were built; days of which it is known."""
    paths = {day: frozenset(file.path for file in files[day]) for day in days}
    recorded = {day: growth.content(build.step.name, day).inputs for day in days}

    def fingerprint_of(day: date, logical: str) -> str:
        return wanted(build.step, version, [day], {raw: {day: logical}})[day].inputs

    def gained_since(day: date, states: Sequence[EarlierState]) -> frozenset[str] | None:
        return plan.gained_files(recorded[day], partial(fingerprint_of, day), states, paths[day])

    found = {day: gained_since(day, growth.memory.of(TableDay(raw, day))) for day in days}
    unknown = {
        day: lambda logical, day=day: fingerprint_of(day, logical) == recorded[day]
        for day in days
        if found[day] is None
    }
    for day, state in find_earlier_states(growth.lake.publisher.log, raw, unknown).items():
        found[day] = gained_since(day, [state])
    for day in days:
        growth.memory.remember(TableDay(raw, day), EarlierState(pin.inputs[raw].days[day], paths[day]))
    return {
        day: tuple(file for file in files[day] if file.path in new) for day, new in found.items() if new is not None
    }


def _extend_refined(
    growth: Growth,
    build: StepBuild,
    version: Version,
    refinement: Refinement,
    gained: Files,
    files: Files,
    pin: Pin,
    now: Wanted,
    done: Extended,
) -> None:
    started = time.monotonic()
    days, raw = sorted(gained), version.reads[0].table
    bronze, quarantine = build.step.tables
    new = [file for day in days for file in gained[day]]
    new_rows = growth.reader.raw(refinement, new)
    keys = _find_keys(growth, build, version, refinement, new_rows, gained, files)
    again = [file for day in days for file in files[day] if keys.counts[raw].get(file.path) and file not in gained[day]]
    judged = new_rows
    if again:
        before = of_keys(growth.reader.raw(refinement, again), key_of_landed(refinement), keys.changed)
        judged = new_rows.unionByName(before)
    timelines = growth.lake.timelines(build.step)
    build.use(timelines.values())
    staged_as = {day: StagedAs(input_fingerprint=now[day].input_fingerprint) for day in days}
    grow_bronze = partial(grow, growth, bronze, accepted(judged, refinement), keys, timelines[bronze.name], staged_as)
    grow_quarantine = partial(
        gain, growth, quarantine, rejected(new_rows, refinement), timelines[quarantine.name], staged_as
    )
    grown = side_by_side(growth.reader.spark, {bronze.name: grow_bronze, quarantine.name: grow_quarantine})
    raw_files = {day: [file.below(raw) for file in (*new, *again) if file.day == str(day)] for day in days}
    grown[bronze.name] |= _without_duplicates(growth, build, version, grown, raw_files, pin)
    if bronze.name in growth.keys:  # those of the days of another version
        for day in days:
            del growth.new_files[TableDay(bronze.name, day)]
    else:
        growth.keys[bronze.name] = keys
    judge(growth, build, version, grown, timelines, days, pin, now, time.monotonic() - started, done)


def _without_duplicates(
    growth: Growth,
    build: StepBuild,
    version: Version,
    grown: Mapping[str, Mapping[date, GrownTable]],
    raw: DayFiles,
    pin: Pin,
) -> dict[date, GrownTable]:
    """Days with many deduplicated rows of which those in the ``raw`` files are of different versions.

    These have all rows of the changed keys. No other row of such a day can be a duplicate if there was none before. The
    days that have one, or had, are left out: they are built whole.
    """
    bronze = build.step.tables[0]
    facts = {day: facts_of(build, version, bronze, grown, day, pin) for day in grown[bronze.name]}
    known = {day: own for day, own in facts.items() if plan.had_no_duplicates(growth.content(bronze.name, day))}

    def files(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        rejects = grown[rule.quarantine]
        return of_days(raw, days), {day: [file.below(rule.quarantine) for file in rejects[day].files] for day in days}

    looked_at = with_second_look(growth.lake.storage, bronze, known, files)
    return {
        day: replace(grown[bronze.name][day], metrics=found.own)
        for day, found in looked_at.items()
        if found.own.get(DUPLICATES) == 0
    }


def _find_keys(
    growth: Growth,
    build: StepBuild,
    version: Version,
    refinement: Refinement,
    new_rows: DataFrame,
    gained: Files,
    files: Files,
) -> RefinedKeys:
    """One job: where raw had the new keys before, and where the refined table and those that follow have them now."""
    days, raw = sorted(gained), version.reads[0].table
    changed = changed_keys(new_rows, refinement)
    old = tuple(file for day in days for file in files[day] if file not in gained[day])
    columns = tuple(F.col(name) for name in refinement.key)
    places = [KeyedFiles(raw, old, key_of_landed(refinement), growth.reader.raw(refinement, old))]
    for table in (build.step.tables[0], *followers(growth.steps, build.step.name, refinement.key)):
        found = growth.files_of(table.name, days)
        places.append(KeyedFiles(table.name, found, columns, growth.reader.of(table, found)))
    return RefinedKeys(changed, count_rows_of_keys(places, changed), refinement.key)


def followers(steps: Sequence[Step], table: str, key: Sequence[str]) -> list[Table]:
    """The tables that follow ``table`` row by row, in one of their versions, directly or through others."""
    grown, found = {table}, list[Table]()
    for step in steps:
        follows = any(version.follows == "rows" and version.reads[0].table in grown for version in step.versions)
        if follows and set(step.tables[0].key) == set(key):
            grown.add(step.name)
            found.append(step.tables[0])
    return found


# ------------------------------------------------------------------ tables that follow row by row


def extend_followers(
    growth: Growth, build: StepBuild, version: Version, days: Sequence[date], pin: Pin, now: Wanted
) -> Extended:
    """Extend ``days`` of a table whose rows each come from one row of its first input, of the same key."""
    first = version.reads[0].table
    keys = growth.keys.get(first)
    done = Extended()
    for day in days:
        reason = growth.why_not(build.step, version, day)
        if not reason and (keys is None or (first, day) not in growth.new_files):
            reason = f"{first} of that day was built whole, or by another version than the days before"
        if not reason and keys is not None and build.step.name not in keys.counts:
            reason = f"its key is not that of {first}"
        if not reason and not _built_from_published(growth, build, version, day):
            reason = "it was built from other inputs than those that were published"
        if reason:
            done.reasons[day] = reason
    rest = [day for day in days if day not in done.reasons]
    if rest and keys is not None:
        _extend_followers(growth, build, version, keys, rest, pin, now, done)
    return done


def _built_from_published(growth: Growth, build: StepBuild, version: Version, day: date) -> bool:
    """Whether the published day was built from the inputs that are published, before they are extended."""
    logicals = {read.table: growth.pin.inputs[read.table].days for read in version.reads}
    recorded = growth.content(build.step.name, day).inputs
    return wanted(build.step, version, [day], logicals)[day].inputs == recorded


def _extend_followers(
    growth: Growth,
    build: StepBuild,
    version: Version,
    keys: RefinedKeys,
    days: Sequence[date],
    pin: Pin,
    now: Wanted,
    done: Extended,
) -> None:
    started = time.monotonic()
    [table] = build.step.tables
    timelines = growth.lake.timelines(build.step)
    build.use(timelines.values())
    rows = version.transform(_inputs(growth, build, version, keys, days, pin))[table.name]
    staged_as = {day: StagedAs(input_fingerprint=now[day].input_fingerprint) for day in days}
    grown = {table.name: grow(growth, table, rows, keys, timelines[table.name], staged_as)}
    _require_keys_of(growth, version.reads[0].table, table, keys, days)
    growth.keys[table.name] = keys
    judge(growth, build, version, grown, timelines, days, pin, now, time.monotonic() - started, done)


def _require_keys_of(growth: Growth, first: str, table: Table, keys: RefinedKeys, days: Sequence[date]) -> None:
    """Rows of other keys would stand beside those that the table has of them."""
    for day in days:
        read, made = (
            keys_in(growth.lake.storage, name, growth.new_files[TableDay(name, day)], keys.key)
            for name in (first, table.name)
        )
        if others := made - read:
            raise LakehouseUnusable(
                f"Extending {table.name} {day} gave {format_count(len(others), 'key')} that its rows of {first} do not "
                f"have: {min(map(str, others))}.",
                hint=f"Nothing was published. A transform with follows='rows' keeps each row's key: correct it, or "
                f"build the day whole: backfill run {table.name} --days {day} --force",
            )


def _inputs(
    growth: Growth, build: StepBuild, version: Version, keys: RefinedKeys, days: Sequence[date], pin: Pin
) -> dict[str, DataFrame]:
    """The changed rows of the first input, and the others as they are read for whole days."""
    first, *others = version.reads
    source = growth.lake.catalog.table(first.table)
    files = [file for day in days for file in growth.new_files[TableDay(first.table, day)]]
    rows = growth.reader.of(source, files)
    inputs = {first.table: rows.select(*struct_type(source.contract).names)}
    for read in others:
        read_days = {each for day in days for each in read.days(build.step.cadence.period(day))}
        of_days = pin.inputs[read.table].model_copy(update={"days": dict.fromkeys(sorted(read_days), "")})
        schema = struct_type(growth.lake.catalog.table(read.table).contract)
        inputs[read.table] = build.place.overlay.rows(growth.reader.spark, growth.lake.storage, of_days, schema)
    return inputs
