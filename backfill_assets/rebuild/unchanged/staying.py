"""The planned days that a campaign leaves as they are, from the logs alone: for those who stage nothing themselves.

A campaign stages no day whose code and inputs are as they were published. Such a day looks like one whose turn has not
come: neither is on a timeline. The decision that staging makes divides them, so it is made here again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date

from backfill_assets.model.graph import missing_inputs
from backfill_assets.publication.publisher import Publisher
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.overlay import Overlay
from backfill_assets.rebuild.shadow import ShadowStep, StagedDays


def with_days_that_stay(publisher: Publisher, steps: Sequence[ShadowStep], staged: StagedDays) -> StagedDays:
    """``staged`` with the days of ``steps``, which are in build order, that stay as they are, and why.

    A day that reads one whose turn has not come waits as well: what it will read is not known yet. What was staged of a
    day that a cut-over leaves out does not count as staged: its other table failed, or what it reads is held back.
    """
    overlay = staged.overlay
    unchanged: dict[str, frozenset[date]] = {}
    left_out: dict[str, frozenset[date]] = {}
    out: dict[str, frozenset[date]] = {}
    waiting: dict[str, frozenset[date]] = {}
    for each in steps:
        names = [table.name for table in each.step.tables]
        failed = {day for name in names for day in staged.failed.get(name, ())}
        blocked = decide.days_reading(each.step, each.version, each.days, out)
        held = failed | blocked
        overlay = overlay.without_days(names, held)
        absent = [day for day in each.days if day not in held and not _is_staged(overlay, names, day)]
        open_days = sorted({*absent} - decide.days_reading(each.step, each.version, absent, waiting))
        same, incomplete = _decide(publisher, each, names, open_days, overlay)
        held |= incomplete
        for name in names:
            unchanged[name] = frozenset(same)
            left_out[name] = frozenset(held - staged.failed.get(name, frozenset()))
            out[name] = frozenset(held)
            waiting[name] = frozenset(absent) - frozenset(same) - frozenset(held)
    return replace(staged, overlay=overlay, unchanged=unchanged, left_out=left_out)


def _decide(
    publisher: Publisher, wanted: ShadowStep, names: Sequence[str], days: Sequence[date], overlay: Overlay
) -> tuple[set[date], set[date]]:
    """The days that are published from just what they would be built from, and those that lack an input."""
    if not days:
        return set(), set()
    step, version = wanted.step, wanted.version
    pin = overlay.over(publisher.pin(writes=dict.fromkeys(names, days), reads=decide.read_days(step, version, days)))
    inputs = decide.wanted(step, version, days, {name: read.days for name, read in pin.inputs.items()})
    incomplete = set(missing_inputs(step, version, days, decide.published_days(pin.states)))
    same = {day for day in days if decide.unchanged(names, day, inputs[day], pin.states, pin.expected)}
    return same - incomplete, incomplete


def _is_staged(overlay: Overlay, names: Collection[str], day: date) -> bool:
    return all(day in _days_of(overlay.days, name) for name in names)


def _days_of(days: Mapping[str, Mapping[date, object]], table: str) -> Mapping[date, object]:
    return days.get(table, {})
