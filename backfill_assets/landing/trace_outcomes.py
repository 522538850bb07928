"""What became of each received row of one key: published, quarantined, deduplicated or superseded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from backfill_assets.landing.places import format_place

Row = Mapping[str, Any]
Outcome = Literal["published", "quarantined", "deduplicated", "superseded", "not built yet"]
RECEIVED = "received"


@dataclass(frozen=True)
class LineFate:
    """One landed line or event and its end, in words a person can act on."""

    day: date
    file: str
    line: int
    outcome: Outcome
    why: str


def fates(
    raw: Sequence[Row], typed: Sequence[Row], quarantined: Sequence[Row], newer: Callable[[Row, Row], bool]
) -> list[LineFate]:
    """The fate of every received row among ``raw``, in their order; markers of newer versions are no rows.

    ``typed`` and ``quarantined`` are the rows with the same key of the tables built from raw. ``newer`` says whether
    a raw row would win over a typed one: its day was then built before it arrived.
    """
    rejected = {_place(row): row for row in quarantined}
    winners = {row["day"]: row for row in typed}
    received = [row for row in raw if row["record_kind"] == RECEIVED]
    return [_fate(row, rejected.get(_place(row)), winners.get(row["day"]), newer) for row in received]


def _fate(raw: Row, rejected: Row | None, winner: Row | None, newer: Callable[[Row, Row], bool]) -> LineFate:
    overtaken = winner is not None and _place(winner) != _place(raw) and newer(raw, winner)
    outcome, why = _outcome(raw, rejected, None if overtaken else winner)
    return LineFate(raw["day"], raw["source_file"], raw["source_line"], outcome, why)


def _outcome(raw: Row, rejected: Row | None, winner: Row | None) -> tuple[Outcome, str]:
    if rejected is not None:
        return "quarantined", "; ".join(rejected["reasons"])
    if winner is None:
        return "not built yet", f"{raw['day']} was not built since this line arrived"
    if _place(winner) != _place(raw):
        return "deduplicated", f"{format_place(winner['source_file'], winner['source_line'])} stands for it"
    if winner["superseded_by_day"] is not None:
        return "superseded", f"a newer version belongs to {winner['superseded_by_day']}"
    return "published", "the newest version of its day"


def _place(row: Row) -> tuple[date, str, int]:
    return row["day"], row["source_file"], row["source_line"]
