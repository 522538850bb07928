"""Days of which only chosen rows are computed: all others are carried over from what main holds.

The record of such a day is honest: it is made of new inputs only if its other rows were. Otherwise it says what they
were made of, and the day stays as stale as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable, PublicationRefused
from backfill_assets.judge.other_rows import days_with_other_rows_changed
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.lakehouse.rows import rows_of_main_files
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.checks import struct_type
from backfill_assets.model.contract import spark_types
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.row_filter import Condition, RowFilter
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild.decide import InputFingerprint

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Files = Mapping[date, Sequence[AddedFile]]


def wanted_of(
    step: Step, day: date, chosen: RowFilter, found: InputFingerprint, published: Sequence[DayContent | None]
) -> InputFingerprint:
    """What identifies the staged day: also the rows that are carried over, so that no other build takes it for its own.

    Raises :class:`InvalidRequest` for a day whose published rows are not known.
    """
    held = [each for each in published if each is not None]
    if len(held) < len(published):
        raise InvalidRequest(
            f"{step.name} {day} is not as published any more: which rows to carry over is not known.",
            hint=f"Build the day whole: backfill run {step.name} --days {day}",
        )
    base = [f"{each.logical} {each.input_fingerprint}" for each in held]
    return InputFingerprint(held[0].inputs, fingerprints.only_rows(found.input_fingerprint, str(chosen), base))


@dataclass(frozen=True)
class OnlyRows:
    """``chosen`` rows of days of a step, and the files of main that have the others."""

    chosen: RowFilter
    files: Mapping[str, Files]
    """By table; paths are relative to it."""

    @classmethod
    def of(cls, storage: Storage, step: Step, chosen: RowFilter, days: Sequence[date], pin: Pin) -> OnlyRows:
        """Raises :class:`PublicationRefused` if main has moved since ``pin``."""
        return cls(chosen, {name: _files_as_pinned(storage, name, days, pin) for name in step.table_names})

    def with_other_rows(
        self, spark: SparkSession, storage: Storage, tables: Sequence[Table], computed: Mapping[str, DataFrame]
    ) -> dict[str, DataFrame]:
        found = {}
        for table in tables:
            schema, holds = struct_type(table.contract), _holds(table, self.chosen)
            files = [file for of_day in self.files[table.name].values() for file in of_day]
            others = rows_of_main_files(spark, storage, table.name, files, schema).where(~holds)
            found[table.name] = computed[table.name].select(*schema.names).where(holds).unionByName(others)
        return found

    def require_others_equal(self, storage: Storage, table: Table, staged: Files) -> None:
        """``staged`` has paths in the lakehouse. Raises :class:`LakehouseUnusable` if another row differs."""
        main = {day: [file.below(table.name) for file in files] for day, files in self.files[table.name].items()}
        sides = {day: (files, staged.get(day, ())) for day, files in main.items()}
        if changed := days_with_other_rows_changed(storage, table, self.chosen, sides):
            raise LakehouseUnusable(
                f"Of {table.name} {changed[0]} rows would change that are none of {self.chosen}.",
                hint="Nothing was published. Build the day whole: "
                f"backfill run {table.name} --days {changed[0]} --force",
            )


def _files_as_pinned(storage: Storage, table: str, days: Sequence[date], pin: Pin) -> Files:
    main = MainTable.open(storage, table)
    found = main.state().of_days(days) if main else dict.fromkeys(days, ())
    for day, files in found.items():
        if {file.path for file in files} != set(pin.expected[TableDay(table, day)].files):
            raise PublicationRefused(
                f"{table} {day} was published again while its rows were carried over.",
                hint="What was staged is kept: run the command again.",
            )
    return found


def _holds(table: Table, chosen: RowFilter) -> Column:
    from pyspark.sql import functions as F

    types = spark_types(table.contract)
    held = reduce(and_, (_condition(each, types[each.column]) for each in chosen.conditions))
    return F.coalesce(held, F.lit(False))


def _condition(each: Condition, kind: object) -> Column:
    from pyspark.sql import functions as F

    values = [F.lit(value).cast(kind) for value in each.values]  # type: ignore[arg-type]
    if each.is_range:
        return F.col(each.column).between(values[0], values[1])
    return F.col(each.column).isin(values)
