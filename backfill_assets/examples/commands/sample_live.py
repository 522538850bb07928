"""``backfill sample --live``: sales of this moment, landed until the time is over or Ctrl-C."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from backfill_assets.cli.output import console, say_answer, say_json
from backfill_assets.report.answer import Answer, Grid, Line
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.examples.sample.live_landing import LiveLanding

DEFAULT_EVENTS = 10.0
"""A second."""
MOST_EVENTS = 20_000


def land_live(root: Path, events_per_second: float, seconds: float | None, seed: int, *, as_json: bool) -> None:
    """Land live sales in ``root``, for ``seconds`` or until Ctrl-C, and print how many of which kind there were."""
    from backfill_assets.examples.sample.live_events import LiveSpec
    from backfill_assets.examples.sample.live_landing import LiveLanding

    live = LiveLanding(LiveSpec(seed, datetime.now(UTC), events_per_second), root)
    terminal = console(stderr=True)
    line = f"Live sales in {root}, {events_per_second:g} a second; Ctrl-C ends it."
    with suppress(KeyboardInterrupt), terminal.status(line) if terminal.is_terminal else nullcontext() as status:
        live.land_for(seconds, lambda now: status.update(f"{line} {_landed(now)}") if status else None)
    if as_json:
        say_json(_as_json(live))
    else:
        _say(live)


def _landed(live: LiveLanding) -> str:
    return f"{format_count(live.lines, 'event')} in {format_count(live.files, 'file')}"


def _say(live: LiveLanding) -> None:
    from backfill_assets.examples.sample.live_events import KINDS

    title = f"seed {live.spec.seed}, {live.spec.events_per_second:g} events a second"
    rows = [(kind, description, live.by_kind[kind]) for kind, description in KINDS.items()]
    kinds = Grid("kinds", ("kind", "what it is", "lines"), rows, title=title)
    say_answer(Answer(parts=(kinds, Line(f"{live.root}: {_landed(live)}."))))


def _as_json(live: LiveLanding) -> dict[str, object]:
    return {
        "seed": live.spec.seed,
        "start": live.spec.start,
        "events_per_second": live.spec.events_per_second,
        "late_days": live.spec.late_days,
        "events": live.lines,
        "files": live.files,
        "by_kind": dict(live.by_kind),
    }
