"""What is read of a place: its own days by their files, and all others from main as it was pinned."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayContent, DayRecord, DayRecords, DayState, InputRead
from backfill_assets.model.declaration import AsOf
from backfill_assets.rebuild.place import Overlay, Place
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake
from backfill_assets_tests.rebuild.test_decide import DAILY, version


def test_a_day_of_the_place_is_read_from_its_own_files_and_a_withdrawn_one_from_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.publish("p0", {"t": {D1: ["a"], D2: ["b"], D3: ["c"]}})
    main = lake.state("t").of_days([D2])[D2]
    own = AddedFile("_timelines/other/part.parquet", str(D1), 10, 0, "")
    overlay = Overlay().with_days("t", [DayRecord(day=D1, files=(own,)), DayRecord(day=D3)])
    read = InputRead(table="t", version=lake.table("t").version(), days=dict.fromkeys((D1, D2, D3), ""))
    assert overlay.files(lake.storage, read) == {
        D1: (own.below("t"),),
        D2: tuple(file.below("t") for file in main),
    }
    assert list(overlay.from_main(read).days) == [D2]


def test_which_days_have_rows_is_as_the_place_shows_it() -> None:
    """Of what is read as of a day: main's days, unless the place or its base has others, or none."""
    step = replace(DAILY, versions=(version(AsOf("planes")),), current="v1")
    with_rows, without = (DayContent(rows=rows, checksum="7") for rows in (1, 0))

    def shown(days: dict[date, DayContent | None]) -> DayRecords:
        return {"bronze_planes": {day: DayRecord(day=day, content=content) for day, content in days.items()}}

    main = {
        TableDay("bronze_planes", day): DayState("bronze_planes", day, "p", 1, "", content)
        for day, content in {D1: with_rows, D2: with_rows, D3: without}.items()
    }
    over = Overlay(shown({D2: None, D3: with_rows}))
    assert Place().filled([step], main) == {"bronze_planes": [D1, D2]}
    assert Place(overlay=over).filled([step], main) == {"bronze_planes": [D1, D3]}
    assert Place(overlay=over, base=shown({D2: with_rows})).filled([step], main) == {"bronze_planes": [D3]}
    assert Place().filled([DAILY], main) == {}
