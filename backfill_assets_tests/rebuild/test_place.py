"""What is read of a place: its own days by their files, and all others from main as it was pinned."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import DayRecord, InputRead
from backfill_assets.rebuild.place import Overlay
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake


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
