"""Which scope fits, from what changed: upstream, in the table itself, or only below it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from backfill_assets.backfill.plan import Recommended, Scope, as_ranges
from backfill_assets.backfill.plan_scope import Chosen
from backfill_assets.backfill.situation import Situation
from backfill_assets.backfill.status import DayStatus
from backfill_assets.backfill.upstream import upstream
from backfill_assets.datasets.dataset import Step

_FINE = (DayStatus.FRESH, DayStatus.MISSING)


def recommend(chosen: Chosen, situation: Situation) -> Recommended | None:
    """None when nothing changed. What a look back does not find is no change: reference data has gaps."""
    needed = upstream(situation.steps, chosen.target, chosen.periods)
    demanded = upstream(situation.steps, chosen.target, chosen.periods, exactly=True)
    for step in situation.steps:
        changed = _changed(step, needed.get(step.name, ()), demanded.get(step.name, set()), chosen, situation)
        if changed:
            return Recommended(scope=Scope.WHOLE, because=_because(step, changed))
    own = _changed(chosen.target, chosen.periods, set(chosen.periods), chosen, situation)
    if own:
        return Recommended(scope=Scope.ONWARDS, because=_because(chosen.target, own))
    for step in situation.steps:
        below = [] if step is chosen.target else chosen.rebuilt(step)
        stale = _changed(step, below, set(below), chosen, situation)
        if stale:
            return Recommended(scope=Scope.DOWNSTREAM, because=_because(step, stale))
    return None


def _changed(
    step: Step, days: Iterable[date], demanded: set[date], chosen: Chosen, situation: Situation
) -> dict[date, str]:
    found = {}
    landed = situation.landed.get(step.name, {})
    for day in sorted(days):
        status = max((chosen.statuses[table.name].get(day, DayStatus.FRESH) for table in step.tables), key=_severity)
        if day in landed and landed[day].waiting:
            found[day] = "landed and not taken in"
        elif status not in _FINE or (status is DayStatus.MISSING and day in demanded):
            found[day] = status.value
    return found


def _severity(status: DayStatus) -> int:
    return list(DayStatus).index(status)


def _because(step: Step, changed: dict[date, str]) -> str:
    what = next(iter(changed.values()))
    ranges = as_ranges(day for day, status in changed.items() if status == what)
    more = f" and {len(ranges) - 1} more" if len(ranges) > 1 else ""
    return f"{step.name} is {what} on {ranges[0]}{more}"
