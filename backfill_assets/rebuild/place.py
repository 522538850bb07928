"""A place is where days are put, and what it shows in place of main's days.

Main itself, a campaign, a timeline, an undo: each begins the names of its folders of staged days with its own name, and
lays its days over main. A build asks it what was staged before from just the inputs there are now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.lakehouse.records import DayRecord, DayRecords
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import (
    CAMPAIGN,
    StagedDay,
    Timeline,
    adoptable,
    open_timelines,
    timelines_of,
)
from backfill_assets.model.graph import Days
from backfill_assets.rebuild.overlay import NOTHING_LAID, Overlay

Offers = Mapping[date, tuple[Timeline, StagedDay]]
"""Staged days that can be used as they are, and the timelines that have their rows."""


@dataclass(frozen=True)
class Place:
    """``owner`` is the name of a campaign or an undo, or the id of a timeline; main has none."""

    owner: str = ""
    overlay: Overlay = NOTHING_LAID
    base: DayRecords | None = None
    """What its other days read through to; None if that is main as it is now."""

    @property
    def is_campaign(self) -> bool:
        return self.owner.startswith(CAMPAIGN)

    def over(self, records: DayRecords) -> Place:
        """This place with further days laid over what is below."""
        return replace(self, overlay=self.overlay.with_records(records))

    def record(self, table: str, day: date) -> DayRecord | None:
        """What it shows of a day; None if that is what main has."""
        laid = self.overlay.record(table, day)
        if laid is not None or self.base is None:
            return laid
        return self.base.get(table, {}).get(day, DayRecord(day=day))

    def seen(self, days: Days) -> Overlay:
        """What lies over main for a build that looks at ``days``."""
        if self.base is None:
            return self.overlay
        through = {table: {day: self.record(table, day) for day in of_table} for table, of_table in days.items()}
        laid = {table: {day: each for day, each in found.items() if each} for table, found in through.items()}
        return self.overlay.with_records(laid)

    def staged(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """The days of ``table`` that were staged here from what is ``wanted``, an input fingerprint for each.

        For main these are the days that any run has staged.
        """
        return adoptable(timelines_of(storage, table, self.owner), wanted)

    def staged_elsewhere(self, storage: Storage, table: str, wanted: Mapping[date, str]) -> Offers:
        """The same of any timeline that has a name; main takes none of these."""
        if not self.owner or not wanted:
            return {}
        return adoptable([each for each in open_timelines(storage, table) if each.is_named], wanted)


MAIN = Place()
