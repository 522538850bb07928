"""Which rows of two sides belong together, from their hashes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from backfill_assets.difference.from_files.day_rows import DayRows
from backfill_assets.quality.arrow_hashes import NotRendered
from backfill_assets.quality.xxh64 import Words

Places = npt.NDArray[np.int64]
"""Where rows are on a side."""


@dataclass(frozen=True)
class RowPairs:
    """Rows that both sides have: where they are before and after, and whether all in them is the same."""

    before: Places
    after: Places
    same: npt.NDArray[np.bool_]


def pairs_by_key(before: DayRows, after: DayRows) -> RowPairs:
    """Raises :class:`NotRendered` if a side has a key twice, as only a foreign write brings it."""
    for side in (before, after):
        if len(np.unique(side.keys)) < len(side):
            raise NotRendered("A key that a day has twice.")
    old, new = _pairs(before.keys, after.keys)
    return RowPairs(old, new, before.rows[old] == after.rows[new])


def pairs_of_equal_rows(before: DayRows, after: DayRows) -> RowPairs:
    """Rows as a multiset: of a row that is there more often on one side, some belong to none."""
    old, new = _pairs(before.rows, after.rows)
    return RowPairs(old, new, np.ones(len(old), np.bool_))


def _pairs(before: Words, after: Words) -> tuple[Places, Places]:
    """The first row of each hash with the first one of the other side, the second with the second, and so on."""
    old, new = _Ordered.of(before), _Ordered.of(after)
    _, in_old, in_new = np.intersect1d(old.hashes, new.hashes, assume_unique=True, return_indices=True)
    both = np.minimum(old.counts[in_old], new.counts[in_new])
    numbers = np.arange(both.sum()) - np.repeat(np.cumsum(both) - both, both)
    places = [side.order[np.repeat(side.first[at], both) + numbers] for side, at in ((old, in_old), (new, in_new))]
    return places[0], places[1]


@dataclass(frozen=True)
class _Ordered:
    """The rows of a side ordered by hash: each hash once, where its rows begin in that order, and how many they are."""

    order: Places
    hashes: Words
    first: Places
    counts: Places

    @classmethod
    def of(cls, hashes: Words) -> _Ordered:
        order = np.argsort(hashes, kind="stable")
        return cls(order, *np.unique(hashes[order], return_index=True, return_counts=True))
