"""Finds the days that cannot be computed: halves a failing range until each bad day is isolated.

An engine's error names a task and a file, seldom a day. The good days go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date

_MOST_BAD_DAYS = 3
"""With more bad days than this, the logic or the engine is broken, and further attempts would only take time."""


def isolate_failing_days(
    attempt: Callable[[Sequence[date]], None],
    days: Sequence[date],
    is_about_days: Callable[[Exception], bool],
    report: Callable[[str], None],
) -> dict[date, Exception]:
    """Run ``attempt`` over ``days``, in halves where it fails; returns the days that fail alone, with their errors.

    An error that ``is_about_days`` denies is raised at once, and so is the first one when every day of a range
    fails or more than three days do.
    """
    bad: dict[date, Exception] = {}
    pending = [tuple(days)] if days else []
    first: Exception | None = None
    while pending:
        part = pending.pop()
        try:
            attempt(part)
        except Exception as error:
            if not is_about_days(error):
                raise
            first = first or error
            if len(part) == 1:
                bad[part[0]] = error
            else:
                half = len(part) // 2
                report(f"{part[0]}..{part[-1]} failed: trying {part[0]}..{part[half - 1]} and the rest by themselves")
                pending += [part[half:], part[:half]]
            if len(bad) > _MOST_BAD_DAYS or (bad and len(bad) == len(days)):
                raise first from None
    return dict(sorted(bad.items()))
