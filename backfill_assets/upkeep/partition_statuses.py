"""Finds where an orchestrator's statuses differ from what is published. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState


@dataclass(frozen=True)
class Corrections:
    """Days whose newest publication was never reported."""

    published: tuple[DayState, ...] = ()
    withdrawn: tuple[DayState, ...] = ()
    settled: int = -1
    """Entries up to this need no second look."""


def statuses_to_put_right(
    states: Iterable[DayState],
    reported: Mapping[TableDay, str],
    under_way: Collection[str],
    *,
    settled: int = -1,
    at_most: int = 200,
) -> Corrections:
    """Days published after ``settled`` whose newest publication is not in ``reported``.

    A failed partition whose publication was reported stays failed. Publications ``under_way`` are reported by their
    own run, and hold ``settled`` back.
    """
    newer = sorted((state for state in states if state.sequence > settled), key=_in_order)
    unreported = [state for state in newer if _is_unreported(state, reported)]
    ready = [state for state in unreported if state.publication not in under_way]
    left = [state for state in unreported if state.publication in under_way] + ready[at_most:]
    done = max((state.sequence for state in newer), default=settled)
    return Corrections(
        published=tuple(state for state in ready[:at_most] if state.content is not None),
        withdrawn=tuple(state for state in ready[:at_most] if state.content is None),
        settled=min((state.sequence - 1 for state in left), default=done),
    )


def _is_unreported(state: DayState, reported: Mapping[TableDay, str]) -> bool:
    named = reported.get(TableDay(state.table, state.day))
    if state.content is None and named is None:
        return False
    return named != state.publication


def _in_order(state: DayState) -> tuple[int, str, date]:
    return state.sequence, state.table, state.day
