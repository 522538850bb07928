"""The real code location with quick sensors, in which the next run dies at the place named in a file.

A run writes the place into the file ``died`` and is then killed with -9 by itself, as if the power had failed. Places
are ``staged <table>`` (its rows are written and not judged) and ``journal <entry>`` (the work is done, the campaign's
journal does not say so yet).
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from backfill_assets.campaign.run import CampaignRun
from backfill_assets.defs.campaigns import jobs
from backfill_assets.defs.sensors import repairs, shows_what_is
from backfill_assets.lakehouse.campaign_journal import JournalEntry
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.rows import stage as write_rows
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.rebuild import stage as staging

DIE_AT, DIED = "die-at", "died"
_HOME = Path(os.environ.get("BACKFILL_HOME", "nowhere"))
_write_entry = CampaignRun.write


def _reach(place: str) -> None:
    chosen = _HOME / DIE_AT
    if chosen.exists() and chosen.read_text() == place:
        chosen.rename(_HOME / DIED)
        os.kill(os.getpid(), signal.SIGKILL)


def _write(self: CampaignRun, entry: JournalEntry) -> None:
    _reach(f"journal {journal_place(entry)}")
    _write_entry(self, entry)


def journal_place(entry: JournalEntry) -> str:
    return entry.step or (f"wave {entry.wave}" if entry.kind == "wave" else entry.kind)


def _stage(rows: Any, timeline: Timeline, staged: Any, **how: Any) -> list[AddedFile]:
    written = write_rows(rows, timeline, staged, **how)
    _reach(f"staged {timeline.table}")
    return written


CampaignRun.write = _write  # type: ignore[method-assign]
vars(staging)["stage"] = _stage
# Before the sensors are made: people may wait for half a minute, a test may not.
vars(jobs)["_EVERY_SECONDS"] = 2
vars(repairs)["EVERY_SECONDS"] = vars(shows_what_is)["_EVERY_SECONDS"] = 5

from backfill_assets.definitions import defs  # noqa: E402

__all__ = ["DIED", "DIE_AT", "defs"]
