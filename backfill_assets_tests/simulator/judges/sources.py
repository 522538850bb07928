"""Once, and nothing lost: raw tables hold the rows of every offset up to their position, and none beyond it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date

from backfill_assets.state.stream_positions import begun_id
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.staging import DAYS, Names

SALES, TOPIC = "sales", "orders"
"""The source and the topic that streams read."""


def rows_of_offset(source: str, table: str, offset: int) -> dict[date, Names]:
    """The rows that one offset of a source gives, by day: the same whenever it is read."""
    day = DAYS[(offset + len(source)) % len(DAYS)]
    return {day: tuple(f"{source}/{table}/{offset}/{number}" for number in range(1 + offset % 2))}


def merged(parts: Iterable[Mapping[date, Names]]) -> dict[date, Names]:
    found: dict[date, Names] = {}
    for part in parts:
        for day, rows in part.items():
            found[day] = (*found.get(day, ()), *rows)
    return found


def judge_positions(table: TableJudge) -> None:
    """Rows and positions together: every offset up to the position, once. Rows past the protocol have no source."""
    found = Counter[str]()
    for image in table.days[-1].values():
        found += Counter({row: n for row, n in image.rows.items() if not row.startswith("foreign")})
    wanted = Counter[str]()
    for source, position in table.positions[-1].items():
        if source != begun_id(SALES, TOPIC):  # it says that a stream has begun, and no rows belong to it
            for offset in range(position):
                for rows in rows_of_offset(source, table.table, offset).values():
                    wanted.update(rows)
    assert not found - wanted, f"{table.table}: {dict(found - wanted)} count twice"
    assert not wanted - found, f"{table.table}: {dict(wanted - found)} are lost"
