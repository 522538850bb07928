"""Parquet: a record is a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from backfill_assets.errors import InvalidRequest, SourceUnreadable
from backfill_assets.landing.compressed import unreadable
from backfill_assets.landing.parquet_texts import literal, no_value, text_of, value_of
from backfill_assets.model.event_day import zone_meant
from backfill_assets.model.landed_format import FILES_OF_ROWS, typed_columns

if TYPE_CHECKING:
    from backfill_assets.landing.parquet_rows import Rows

_MOST_DIGITS = 38


@dataclass(frozen=True, kw_only=True)
class Parquet:
    """Column names are case-sensitive; names of folders are no columns. A value counts as its canonical text. A file
    with an unreadable part is refused.
    """

    zone: str = ""
    """The zone of moments without one, as pandas writes them: ``UTC``. By default they stay local times, which are no
    moments. 96-bit moments are UTC.
    """

    endings: ClassVar[Sequence[str]] = FILES_OF_ROWS
    of_json: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if hint := zone_meant(self.zone or "UTC"):
            raise InvalidRequest(f"Parquet is declared wrong: there is no time zone {self.zone!r}.", hint=hint)

    def first_problem(self, path: Path, fields: Sequence[str]) -> str | None:
        from backfill_assets.landing.parquet_rows import rows_of

        try:
            with rows_of(path) as rows:
                if problem := _problem_of(rows, fields):
                    return problem
                rows.read_all()
        except SourceUnreadable as error:
            return error.message.removeprefix(f"{path}: ").removesuffix(".")
        return None

    def records(self, path: Path, fields: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self.typed_records(path, fields, pa.schema([]))

    def typed_records(self, path: Path, fields: Sequence[str], values: pa.Schema) -> Iterator[pa.RecordBatch]:
        from backfill_assets.landing.parquet_rows import rows_of

        schema, read = typed_columns(self, fields, values), 0
        with rows_of(path) as rows:
            if problem := _problem_of(rows, fields):
                raise unreadable(path, problem)
            for batch in rows.batches(self._asked(rows, fields, values)):
                numbers = pa.array(np.arange(read + 1, read + 1 + len(batch)))
                no_text = pa.nulls(len(batch), pa.string())
                of_row = pa.StructArray.from_arrays(batch.columns[: len(fields)], list(fields))
                others, *given = batch.columns[len(fields) :]
                typed = [pa.StructArray.from_arrays(given, fields=list(values))] if given else []
                columns = [numbers, no_text, of_row, others.cast(schema.field("others").type), *typed]
                yield pa.record_batch(columns, schema)
                read += len(batch)
            if read != rows.count:
                raise unreadable(path, f"it has {read:,} rows, and says that it has {rows.count:,}")

    def _asked(self, rows: Rows, fields: Sequence[str], values: pa.Schema) -> Sequence[str]:
        zone = self.zone or ("UTC" if rows.has_moments_of_96_bits else "")
        columns = {name: (value, kind) for name, value, kind in rows.columns()}
        texts = {name: text_of(value, kind, zone) for name, (value, kind) in columns.items()}
        others = [f"{{'key': {literal(name)}, 'value': {text}}}" for name, text in texts.items() if name not in fields]
        pairs = f"[{', '.join(others)}]" if others else "CAST(NULL AS STRUCT(key VARCHAR, value VARCHAR)[])"
        typed = [
            value_of(*columns[each.name], zone, each.type) if each.name in columns else no_value(each.type)
            for each in values
        ]
        return [*(texts.get(name, "CAST(NULL AS VARCHAR)") for name in fields), pairs, *typed]


def _problem_of(rows: Rows, fields: Sequence[str]) -> str | None:
    names = rows.names
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        return f"it has two columns {twice[0]!r}"
    if not set(names) & set(fields):
        return f"it has no column {' or '.join(fields)}: its columns are {', '.join(names) or 'none'}"
    if rows.longest_decimal > _MOST_DIGITS:
        return f"it has decimals of {rows.longest_decimal} digits, and {_MOST_DIGITS} can be read"
    return None
