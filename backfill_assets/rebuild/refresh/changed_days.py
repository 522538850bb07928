"""Which landed files have changed since raw has read them, for plans that read the source again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landed_days import LandedDay
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.refresh.changed_files import ArrivalFiles, compare_files


def compare_days(
    zone: LandingZone, storage: Storage, table: str, listed: Mapping[date, LandedDay]
) -> dict[date, LandedDay]:
    """``listed`` with the files that changed and those that are gone; reads every file of these days."""
    main = MainTable.open(storage, table)
    if main is None or not listed:
        return dict(listed)
    found = compare_files(zone, table.removeprefix("raw_"), main.transactions(), listed)
    return {each.day: _with_changes(listed[each.day], each) for each in found}


def _with_changes(landed: LandedDay, found: ArrivalFiles) -> LandedDay:
    if not (found.changed or found.gone):
        return landed
    files = (f"{file.path}={file.content_hash}" for file in (*found.changed, *found.new))
    contents = fingerprints.physical([*files, *(f"{path} is gone" for path in found.gone)])
    return replace(landed, changed=tuple(file.path for file in found.changed), gone=found.gone, contents=contents)
