"""Days of a step grow: their rows are computed from the new rows of its inputs, and from old ones of the same keys."""

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
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.model.checks import struct_type
from backfill_assets.model.declaration import DUPLICATES, Step, Table
from backfill_assets.model.refinement import Refinement, accepted, rejected
from backfill_assets.model.rules import FewDuplicates, FewRejected
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.grow_tables import Grown, GrownTable, Growth
from backfill_assets.rebuild.growing import ChangedKeys, Gain, Growing
from backfill_assets.rebuild.grown_content import had_no_duplicates
from backfill_assets.rebuild.keyed_rows import (
    KeyedFiles,
    changed_keys,
    count_rows_of_keys,
    key_of_landed,
    keys_in,
    of_keys,
)
from backfill_assets.rebuild.stage import Chunk, input_rows, plain_facts, side_by_side
from backfill_assets.text import format_count


def grow_chunk(growing: Growing, chunk: Chunk, gains: Mapping[date, Gain], timelines: Mapping[str, Timeline]) -> Grown:
    """Stage the days of ``chunk`` with what each of them ``gains``, and judge them as whole days.

    ``timelines`` has one for every table of the step. Days whose content cannot be told so, to the last metric, come
    back with the reason why they have to be built whole.
    """
    if isinstance(chunk.version.transform, Refinement):
        return _grow_refined(Growth(growing, chunk, timelines), chunk.version.transform, gains)
    done = Grown()
    for keys in {id(gains[day].keys): gains[day].keys for day in chunk.days}.values():
        days = [day for day in chunk.days if gains[day].keys is keys]
        if keys is not None:
            part = _grow_following(Growth(growing, replace(chunk, days=days), timelines), keys, gains)
            done = Grown({**done.staged, **part.staged}, {**done.whole, **part.whole})
    return done


# ------------------------------------------------------------------ raw rows become typed rows


def _grow_refined(growth: Growth, refinement: Refinement, gains: Mapping[date, Gain]) -> Grown:
    """Winners and rejected rows."""
    started, days = time.monotonic(), growth.chunk.days
    raw = growth.chunk.catalog.table(growth.chunk.version.reads[0].table)
    bronze, quarantine = growth.chunk.step.tables
    new = [file for day in days for file in gains[day].new]
    new_rows = growth.rows(raw, new)
    keys = _find_keys(growth, raw, refinement, new_rows, gains)
    again = [file for day in days for file in gains[day].old if keys.counts[raw.name].get(file.path)]
    judged = new_rows
    if again:
        before = of_keys(growth.rows(raw, again), key_of_landed(refinement), keys.changed)
        judged = new_rows.unionByName(before)
    work = {
        bronze.name: partial(growth.replace_rows, bronze, accepted(judged, refinement), keys),
        quarantine.name: partial(growth.add_rows, quarantine, rejected(new_rows, refinement)),
    }
    grown = side_by_side(growth.spark, work)
    raw_files = {day: [file.below(raw.name) for file in (*new, *again) if file.day == str(day)] for day in days}
    grown[bronze.name] |= _without_duplicates(growth, bronze, grown, raw_files)
    return growth.judged(grown, time.monotonic() - started)


def _without_duplicates(
    growth: Growth, bronze: Table, grown: Mapping[str, Mapping[date, GrownTable]], raw: DayFiles
) -> dict[date, GrownTable]:
    """Days with many deduplicated rows of which those in the ``raw`` files are of different versions.

    These have all rows of the changed keys. No other row of such a day can be a duplicate if there was none before. The
    days that have one, or had, are left out: they are built whole.
    """
    facts = plain_facts(growth.chunk, growth.metrics(grown))[bronze.name]
    known = {day: own for day, own in facts.items() if had_no_duplicates(growth.growing.content(bronze.name, day))}

    def files(rule: FewDuplicates | FewRejected, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        rejects = grown[rule.quarantine]
        return of_days(raw, days), {day: [file.below(rule.quarantine) for file in rejects[day].files] for day in days}

    looked_at = with_second_look(growth.storage, bronze, known, files)
    return {
        day: replace(grown[bronze.name][day], metrics=found.own)
        for day, found in looked_at.items()
        if found.own.get(DUPLICATES) == 0
    }


def _find_keys(
    growth: Growth, raw: Table, refinement: Refinement, new_rows: DataFrame, gains: Mapping[date, Gain]
) -> ChangedKeys:
    """One job: where raw had the new keys before, and where the refined table and those that follow have them now."""
    days, growing = growth.chunk.days, growth.growing
    changed = changed_keys(new_rows, refinement)
    old = tuple(file for day in days for file in gains[day].old)
    columns = tuple(F.col(name) for name in refinement.key)
    places = [KeyedFiles(raw.name, old, key_of_landed(refinement), growth.rows(raw, old))]
    bronze = growth.chunk.step.tables[0]
    for table in (bronze, *_followers(growing.steps, bronze.name, refinement.key)):
        found = growing.files_of(table.name, days)
        places.append(KeyedFiles(table.name, found, columns, growth.rows(table, found)))
    return ChangedKeys(changed, count_rows_of_keys(places, changed), refinement.key)


def _followers(steps: Sequence[Step], table: str, key: Sequence[str]) -> list[Table]:
    """The tables that follow ``table`` row by row, in one of their versions, directly or through others."""
    grown, found = {table}, list[Table]()
    for step in steps:
        follows = any(version.follows == "rows" and version.reads[0].table in grown for version in step.versions)
        if follows and set(step.tables[0].key) == set(key):
            grown.add(step.name)
            found.append(step.tables[0])
    return found


# ------------------------------------------------------------------ tables that follow row by row


def _grow_following(growth: Growth, keys: ChangedKeys, gains: Mapping[date, Gain]) -> Grown:
    started, (table,) = time.monotonic(), growth.chunk.step.tables
    rows = growth.chunk.version.transform(_inputs(growth, gains))[table.name]
    grown = {table.name: growth.replace_rows(table, rows, keys)}
    _require_keys_of(growth, table, keys, gains)
    return growth.judged(grown, time.monotonic() - started)


def _inputs(growth: Growth, gains: Mapping[date, Gain]) -> dict[str, DataFrame]:
    """The changed rows of the first input, and the others as they are read for whole days."""
    chunk = growth.chunk
    first = chunk.catalog.table(chunk.version.reads[0].table)
    rows = growth.rows(first, [file for day in chunk.days for file in gains[day].new])
    others = decide.read_days(chunk.step, chunk.version, chunk.days)
    del others[first.name]
    return {
        first.name: rows.select(*struct_type(first.contract).names),
        **{name: input_rows(growth.spark, growth.storage, chunk, name, days) for name, days in others.items()},
    }


def _require_keys_of(growth: Growth, table: Table, keys: ChangedKeys, gains: Mapping[date, Gain]) -> None:
    """Rows of other keys would stand beside those that the table has of them."""
    first = growth.chunk.version.reads[0].table
    for day in growth.chunk.days:
        made_files = growth.growing.grown[TableDay(table.name, day)].new
        read, made = (
            keys_in(growth.storage, name, files, keys.key)
            for name, files in ((first, gains[day].new), (table.name, made_files))
        )
        if others := made - read:
            raise LakehouseUnusable(
                f"Extending {table.name} {day} gave {format_count(len(others), 'key')} that its rows of {first} do not "
                f"have: {min(map(str, others))}.",
                hint=f"Nothing was published. A transform with follows='rows' keeps each row's key: correct it, or "
                f"build the day whole: backfill run {table.name} --days {day} --force",
            )
