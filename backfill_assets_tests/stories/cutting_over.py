"""Processes that cut a staged campaign over, and die at a chosen step.

Served as :mod:`backfill_assets_tests.forks` does, with the words ``HOME [STEP NUMBER]``: one kills itself with SIGKILL
at the NUMBERth time STEP is reached.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from backfill_assets.campaign.cutover import cut_over
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.publish.crash_points import CrashPoint, Reached
from backfill_assets.rebuild.builder import Builder
from backfill_assets.settings import Settings
from backfill_assets_tests.forks import serve
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.stories.staged_campaign import CAMPAIGN, RUN, steps

REACHED = "reached.txt"


def run(home: str, *kill_at: str) -> int:
    """0 when it published, 3 when another process had published it already."""
    builder = Builder.from_settings(Settings.at(Path(home)), CATALOG, no_spark)
    builder.lake.publisher.reached = _dying(Path(home) / REACHED, list(kill_at))
    try:
        cut_over(builder.lake, CAMPAIGN, steps(), RUN, lambda _: None)
    except InvalidRequest:
        return 3
    return 0


def _dying(reached: Path, kill_at: list[str]) -> Reached:
    counts: dict[str, int] = {}

    def at(step: CrashPoint, about: str) -> None:
        counts[step.value] = counts.get(step.value, 0) + 1
        with reached.open("a") as file:
            file.write(f"{step.value}\t{counts[step.value]}\n")
        if kill_at == [step.value, str(counts[step.value])]:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


if __name__ == "__main__":
    serve(run)
