"""Where an orchestrator's partition statuses differ from what is published, and what puts them right. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayState


@dataclass(frozen=True)
class Corrections:
    """What must still be reported about days whose newest publication never was."""

    published: tuple[DayState, ...] = ()
    withdrawn: tuple[DayState, ...] = ()
    """Once reported as published; a rollback has left nothing there."""
    settled: int = -1
    """No entry of the publication log up to this sequence needs to be looked at again."""
    within: TableDay | None = None
    """Nor does the entry after it up to this table and day: a portion may end in the middle of one."""


def statuses_to_put_right(
    states: Iterable[DayState],
    reported: Mapping[TableDay, str],
    under_way: Collection[str],
    *,
    settled: int = -1,
    within: TableDay | None = None,
    at_most: int = 200,
) -> Corrections:
    """Days published after ``settled`` and ``within`` whose newest materialization is of another publication.

    ``reported`` is the publication that the newest materialization of each (table, day) names. A failed partition whose
    publication was reported stays failed: its last attempt published nothing. Publications that are ``under_way`` are
    reported by their own run, and hold ``settled`` back.
    """
    newer = sorted((state for state in states if _is_after(state, settled, within)), key=_in_order)
    unreported = [state for state in newer if _is_unreported(state, reported)]
    ready = [state for state in unreported if state.publication not in under_way]
    left = [state for state in unreported if state.publication in under_way] + ready[at_most:]
    done, part = _place_before(left, newer, settled, within)
    return Corrections(
        published=tuple(state for state in ready[:at_most] if state.content is not None),
        withdrawn=tuple(state for state in ready[:at_most] if state.content is None),
        settled=done,
        within=part,
    )


def _is_after(state: DayState, settled: int, within: TableDay | None) -> bool:
    is_done = within is not None and state.sequence == settled + 1 and TableDay(state.table, state.day) <= within
    return state.sequence > settled and not is_done


def _place_before(
    left: Iterable[DayState], newer: Sequence[DayState], settled: int, within: TableDay | None
) -> tuple[int, TableDay | None]:
    """Up to where nothing is ``left``. A withdrawn day never shows that it was reported: only its place says so."""
    first = min(left, key=_in_order, default=None)
    if first is None:
        return max((state.sequence for state in newer), default=settled), within if not newer else None
    same = (state for state in newer if state.sequence == first.sequence and _in_order(state) < _in_order(first))
    before = [TableDay(state.table, state.day) for state in same]
    kept = within if first.sequence == settled + 1 else None
    return first.sequence - 1, max(before, default=kept)


def _is_unreported(state: DayState, reported: Mapping[TableDay, str]) -> bool:
    named = reported.get(TableDay(state.table, state.day))
    if state.content is None and named is None:
        return False
    return named != state.publication


def _in_order(state: DayState) -> tuple[int, str, date]:
    return state.sequence, state.table, state.day
