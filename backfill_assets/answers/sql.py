"""The answer to ``backfill sql``: rows of a query, or the tables that there are."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from backfill_assets.report.answer import Answer, Code, Datum, Fact, Grid, Line, Tone
from backfill_assets.sql.moments import Moments, dataset_in, schema_of
from backfill_assets.sql.query import SqlRows
from backfill_assets.sql.rows_out import rows_of
from backfill_assets.text import format_count


def rows_answer(found: SqlRows, most: int | None = None) -> Answer:
    names, rows = rows_of(found, most)
    cut = most is not None and len(rows) > most
    shown = [[_cell(each) for each in row] for row in rows[:most]]
    said = [Line(f"Only the first {most} rows are shown: --csv, or a FILE, has all.", Tone.WARN)] if cut else []
    said += [] if rows else [Line("No row.")]
    return Answer(parts=(Grid("rows", tuple(names), shown), *said, Fact("read", dict(found.read))))


def _cell(value: Any) -> object:
    match value:
        case bytes():
            return Datum(value.hex())
        case Decimal() if value.as_tuple().exponent == 0:
            return Datum(int(value))
    return Datum(value)


def written_answer(file: str) -> Answer:
    return Answer(parts=(Fact("file", file),))


def tables_answer(moments: Moments, *, as_of: str = "", on: str = "") -> Answer:
    view = moments.view(schema_of(as_of, on))
    rows: Sequence[Sequence[object]] = [
        (table, ", ".join(dataset_in(view, table).schema.names)) for table in view.tables
    ]
    if not rows:
        return Answer(parts=(Line("Nothing was published: there is no table yet.", do="backfill status"),))
    example = f'backfill sql "SELECT count(*) FROM {rows[0][0]}"'  # noqa: S608 - shown, not run
    title = format_count(len(rows), "table")
    return Answer(
        parts=(Fact("read", view.name), Grid("tables", ("table", "columns"), rows, title=title)), next=(example,)
    )


def readers_answer(address: str) -> Answer:
    recipe = f"duckdb -init {address}\nduckdb.sql(open({address!r}).read())    # in Python"
    return Answer(
        parts=(
            Fact("file", address),
            Line("Each publication replaces it, until it is deleted: whoever opens it sees all tables of one moment."),
            Code("open", recipe),
        )
    )
