"""A hazard as if it had been played."""

from __future__ import annotations

from dataclasses import replace

from backfill_assets.examples.lab.counts import Hazard, HazardText, SourceReads, TableCount, WayCounts

TEXT = HazardText(
    name="collision",
    title="Two <writers>",
    question="What happens?",
    events=("Rows land. " * 20, "A backfill writes."),
    why_wrong="It deletes them.",
    why_safe="It is refused.",
    look=("backfill_assets/rebuild/ingest.py",),
)


def way(
    name: str,
    *,
    safe: bool = False,
    missing: int = 0,
    doubled: int = 0,
    days: int = 0,
    lost: int = 0,
    events: int = 100,
) -> WayCounts:
    """With ``days`` its work is counted too."""
    rows = events - missing + doubled
    return WayCounts(
        way=name,
        safe=safe,
        events=events,
        tables=(TableCount("sales", rows, missing, doubled),),
        seconds=2.5,
        source=SourceReads(4, 4096, 2048),
        days_computed=days,
        days_thrown_away=lost,
        note="Seen." if safe else "",
    )


PLAIN, SAFE = way("plain job", missing=30, doubled=10), way("this project", safe=True)
CAREFUL = replace(way("merging job"), careful=True)
PLAYED = Hazard(TEXT, (PLAIN, SAFE))
WORKED = Hazard(TEXT, (way("one job", days=95, lost=45), way("this project", safe=True, days=50)))
