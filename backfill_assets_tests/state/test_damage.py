"""Notes of days whose files are gone: they count as long as a file of the day is missing. No JVM."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.state.damage import damaged_days, files_may_go, free_bytes, note_damage
from backfill_assets_tests.protocol.lake import D1, D2, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

DAY = date(2017, 3, 1)


def test_files_of_file_managers_among_the_notes_are_no_notes(tmp_path: Path) -> None:
    """They lie beside the folders of tables, or in one, and status reads all that is there."""
    small = SmallLakehouse(tmp_path)
    small.publish("first", {"bronze_sales": {DAY: [1]}})
    (path,) = small.newest("bronze_sales").file_uris()
    Path(path).unlink()
    note_damage(small.storage, "bronze_sales", DAY, ["gone"])
    for stray in (".DS_Store", "bronze_sales/.DS_Store", f"bronze_sales/._{DAY}.json"):
        (tmp_path / "_damage" / stray).write_bytes(b"")
    assert list(damaged_days(small.storage, {"bronze_sales": small.newest("bronze_sales").version()})) == [
        TableDay("bronze_sales", DAY)
    ]


def test_a_note_counts_as_long_as_a_file_of_the_day_is_missing(tmp_path: Path) -> None:
    """And only at the version that is asked about: what replaced the day is whole."""
    small = SmallLakehouse(tmp_path)
    small.publish("first", {"t": {DAY: [1]}, "u": {DAY: [1]}})
    paths = [Path(uri) for table in ("u", "t") for uri in small.newest(table).file_uris()]
    kept = {path: path.read_bytes() for path in paths}
    then = {table: small.newest(table).version() for table in ("u", "t")}
    for path, table in zip(paths, ("u", "t"), strict=True):
        path.unlink()
        note_damage(small.storage, table, DAY, [path.name])
    found = damaged_days(small.storage, then)
    assert list(found) == [TableDay("t", DAY), TableDay("u", DAY)]
    assert [path.endswith(paths[1].name) for path in found[TableDay("t", DAY)]] == [True]
    assert list(damaged_days(small.storage, {"u": then["u"]})) == [TableDay("u", DAY)]
    paths[0].write_bytes(kept[paths[0]])
    assert list(damaged_days(small.storage, then)) == [TableDay("t", DAY)]
    small.publish("second", {"t": {DAY: [2]}})
    assert not damaged_days(small.storage, {**then, "t": small.newest("t").version()})


def test_files_may_go_a_window_after_main_has_let_go_of_them(lake: Lake) -> None:
    """Days that came since take nothing away; of a version that cannot be read any more, all may be gone at once."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["a"]}})
    pinned = {table: lake.table(table).version() for table in ("t", "u")}

    def from_when() -> dict[str, timedelta]:
        found = files_may_go(lake.storage, {**pinned, "never": 3}, 30, lake.clock)
        return {table: moment - lake.clock for table, moment in found.items()}

    assert from_when() == {}
    lake.publish("p2", {"t": {D2: ["b"]}})
    assert from_when() == {}
    lake.publish("p3", {"t": {D1: ["c"]}})
    lake.clock += timedelta(days=2)
    lake.publish("p4", {"t": {D1: ["d"]}})
    (left,) = from_when().values()
    assert timedelta(days=28) - timedelta(minutes=2) < left <= timedelta(days=28)
    lake.table("t").create_checkpoint()
    (lake.root / "t" / "_delta_log" / f"{pinned['t']:020d}.json").unlink()
    assert from_when() == {"t": timedelta()}


def test_the_room_on_a_disk_is_known_once_there_is_a_lakehouse(tmp_path: Path) -> None:
    assert free_bytes(Storage(str(tmp_path))) and free_bytes(Storage(str(tmp_path / "none"))) is None
