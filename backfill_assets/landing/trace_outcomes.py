"""What became of each received row of a key: published, quarantined, deduplicated, superseded, deleted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any, Literal

from backfill_assets.lakehouse.records import is_of_stream
from backfill_assets.landing.landed_lines import format_place
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.landed_format import record_word

Row = Mapping[str, Any]
Outcome = Literal["published", "quarantined", "deduplicated", "superseded", "deleted", "not built yet"]
Place = tuple[date, str, int]
RECEIVED = "received"


@dataclass(frozen=True)
class LineFate:
    day: date
    file: str
    line: int
    outcome: Outcome
    why: str


def fates(
    raw: Sequence[Row],
    typed: Sequence[Row],
    quarantined: Sequence[Row],
    newer: Callable[[Row, Row], bool],
    deleted_by: Mapping[Place, str] = MappingProxyType({}),
) -> list[LineFate]:
    """``newer`` rows would win over the typed one, built before they arrived; ``deleted_by``: publications by place."""
    rejected = {place_of(row): row for row in quarantined}
    winners = {row["day"]: row for row in typed}
    deleted = set(deleted_rows(raw))
    found = []
    for number, row in enumerate(row for row in raw if row["record_kind"] == RECEIVED):
        reject, winner = rejected.get(place_of(row)), winners.get(row["day"])
        if number in deleted:
            found.append(_deleted(row, reject or winner, deleted_by.get(place_of(row), "")))
        else:
            found.append(_fate(row, reject, winner, newer))
    return found


def deleted_rows(raw: Sequence[Row]) -> list[int]:
    """Positions among received rows. The first of equal rows at one place are deleted: one that came back is the
    last.
    """
    left = Counter(_identity(row) for row in raw if row["record_kind"] == DELETION)
    if not left:
        return []
    deleted = []
    for number, row in enumerate(row for row in raw if row["record_kind"] == RECEIVED):
        if left[_identity(row)] > 0:
            left[_identity(row)] -= 1
            deleted.append(number)
    return deleted


def _identity(row: Row) -> tuple[object, ...]:
    return *place_of(row), row["content_hash"], row["rescued"]


def _deleted(raw: Row, held: Row | None, by: str) -> LineFate:
    why = f"the source no longer had it when the files of {raw['arrival_day']} were read again{by and f' by {by}'}"
    if is_of_stream(by.split(" ", maxsplit=1)[0]):
        why = f"a null value deleted its key: {by}"
    if held is not None and place_of(held) == place_of(raw):
        why += f"; {raw['day']} was not built since"
    return LineFate(raw["day"], raw["source_file"], raw["source_line"], "deleted", why)


def _fate(raw: Row, rejected: Row | None, winner: Row | None, newer: Callable[[Row, Row], bool]) -> LineFate:
    overtaken = winner is not None and place_of(winner) != place_of(raw) and newer(raw, winner)
    outcome, why = _outcome(raw, rejected, None if overtaken else winner)
    return LineFate(raw["day"], raw["source_file"], raw["source_line"], outcome, why)


def _outcome(raw: Row, rejected: Row | None, winner: Row | None) -> tuple[Outcome, str]:
    if rejected is not None:
        return "quarantined", "; ".join(rejected["reasons"])
    if winner is None:
        return "not built yet", f"{raw['day']} was not built since this {record_word(raw['source_file'])} arrived"
    if place_of(winner) != place_of(raw):
        return "deduplicated", f"{format_place(winner['source_file'], winner['source_line'])} stands for it"
    if winner["superseded_by_day"] is not None:
        return "superseded", f"a newer version belongs to {winner['superseded_by_day']}"
    return "published", "the newest version of its day"


def place_of(row: Row) -> Place:
    return row["day"], row["source_file"], row["source_line"]
