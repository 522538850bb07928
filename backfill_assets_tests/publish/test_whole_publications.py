"""What readers are promised: all of a publication or nothing of it, in one table and, for those who pin, in several."""

from __future__ import annotations

from deltalake import DeltaTable

from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake

DAYS = (D1, D2, D3)


def versions(lake: Lake, table: str) -> list[DeltaTable]:
    """Every state of the table that any reader could ever have seen, but for the empty one it began with."""
    uri = lake.publisher().storage.uri(table)
    return [DeltaTable(uri, version=version) for version in range(1, DeltaTable(uri).version() + 1)]


def test_a_publication_is_one_commit_to_each_table(lake: Lake) -> None:
    """Had a crash or a reader come between two commits of one publication, they would show half of it."""
    lake.publish("p1", {"t": {day: ["old"] for day in DAYS}, "u": {D1: ["old"]}})
    lake.publish("p2", {"t": {day: ["new", "new"] for day in DAYS}, "u": {D1: ["new"]}})
    seen = [len(table.to_pyarrow_table()) for table in versions(lake, "t")]
    assert seen == [3, 6]
    assert len(versions(lake, "u")) == 2


def test_pinned_versions_of_two_tables_belong_together(lake: Lake) -> None:
    """At the map of each closed entry, both come from the same publications; it has tables of earlier ones too."""
    maps = []
    for number in range(1, 4):
        lake.publish(f"p{number}", {"t": {D1: ["x"] * number}, "u": {D1: ["y"] * number}})
        maps.append(lake.head.versions)
    lake.publish("p4", {"u": {D2: ["y"]}})
    for pinned, t, u in zip((*maps, lake.head.versions), (1, 2, 3, 3), (1, 2, 3, 4), strict=True):
        rows = {table: sum(map(len, lake.rows(table, version).values())) for table, version in pinned.items()}
        assert rows == {"t": t, "u": u}
