"""What the log of a Delta table of others says of its days: types, zones, partitions, vectors, mapped names, gaps."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.external.delta_table import DeltaTableOfOthers
from backfill_assets.lakehouse.delta_log import VersionGone
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.external_table import ExternalTable
from backfill_assets_tests.external.hand_written import HandWritten, add, column, remove, spans, vector

D1, D2, D3 = DayRange(date(2025, 1, 1), date(2025, 1, 3))
BERLIN = "Europe/Berlin"
V = "ab^-aqEH.-t@S}K{vb[*k^"
"""The name of a file of deletion vectors."""


class Order(Contract):
    """An order of others."""

    order_id: str = Field()


def others(home: Path, kind: object = "date", *partitioned_by: str, physical: str = "") -> HandWritten:
    columns = [column("order_id", "string"), column("order_date", kind, physical)]
    return HandWritten(home / "orders", columns, partitioned_by)


def read(table: HandWritten, zone: str = "UTC", day: str = "order_date") -> DeltaTableOfOthers:
    return DeltaTableOfOthers(ExternalTable("orders", Order, location=f"{table.location}/", day=day, event_zone=zone))


def test_a_version_has_its_files_its_types_and_the_id_of_its_table(tmp_path: Path) -> None:
    table = others(tmp_path)
    table.commit(add("a", "2025-01-01", "2025-01-02", rows=5), add("b"))
    table.commit(remove("b"), add("c", "2025-01-03"))
    now = read(table).at(1)
    assert (now.id, now.version, now.types) == ("one", 1, {"order_id": "string", "order_date": "date"})
    assert spans(now.files) == {"a": DayRange(D1, D2), "c": DayRange(D3, D3)}
    assert (read(table).newest(), read(table).committed_on(1)) == (1, date(2025, 1, 31))
    assert spans(read(table).at(0).files) == {"a": DayRange(D1, D2), "b": None}


@pytest.mark.parametrize(
    ("least", "greatest", "zone", "days"),
    [
        # Clocks go on from 2:00 to 3:00 on 30 March, and back from 3:00 to 2:00 on 26 October.
        ("2025-03-29T23:00:00.000Z", "2025-03-30T21:59:59.998Z", BERLIN, "2025-03-30"),
        ("2025-03-29T22:59:59.999Z", "2025-03-30T22:00:00.000Z", BERLIN, "2025-03-29..2025-03-31"),
        ("2025-10-25T22:00:00.000Z", "2025-10-26T22:59:59.998Z", BERLIN, "2025-10-26"),
        ("2025-10-25T21:59:59.999Z", "2025-10-26T23:00:00.000Z", BERLIN, "2025-10-25..2025-10-27"),
        ("2025-01-01T00:00:00.000Z", "2025-01-01T23:59:59.999Z", "UTC", "2025-01-01..2025-01-02"),
        ("2025-01-01T01:00:00.000+02:00", "2025-01-01T12:00:00.000+02:00", "UTC", "2024-12-31..2025-01-01"),
        ("2025-01-01T12:00:00.000Z", "2025-01-01T12:00:00.000Z", "Pacific/Kiritimati", "2025-01-02"),
    ],
)
def test_a_moment_is_on_the_day_of_its_zone_and_the_last_one_may_be_cut(
    tmp_path: Path, least: str, greatest: str, zone: str, days: str
) -> None:
    """The greatest moment is cut to milliseconds: in the last one of a day, rows may be on the next."""
    table = others(tmp_path, "timestamp")
    table.commit(add("a", least, greatest))
    assert spans(read(table, zone).at(0).files) == {"a": DayRange.parse(days)}


def test_a_moment_without_a_zone_is_on_its_own_day_whatever_zone_is_declared(tmp_path: Path) -> None:
    table = others(tmp_path, "timestamp_ntz")
    table.commit(add("a", "2025-01-01T23:30:00.000", "2025-01-01T23:40:00.000"))
    assert spans(read(table, BERLIN).at(0).files) == {"a": DayRange(D1, D1)}


def test_text_begins_with_its_day_and_what_does_not_is_on_any_day(tmp_path: Path) -> None:
    table = others(tmp_path, "string")
    table.commit(
        add("a", "2025-01-01T09:00", "2025-01-02 x"), add("b", "", "2025-01-02"), add("c", "2025-01-01", "n/a")
    )
    assert spans(read(table).at(0).files) == {"a": DayRange(D1, D2), "b": None, "c": None}


def test_a_partition_says_its_day_and_one_without_a_value_has_none(tmp_path: Path) -> None:
    table = others(tmp_path, "date", "order_date")
    table.commit(
        add("a", partitionValues={"order_date": "2025-01-01"}),
        add("b", partitionValues={"order_date": None}),
        add("c", partitionValues={"order_date": ""}),
    )
    files = {each.identity: (each.touches, each.without_days) for each in read(table).at(0).files}
    assert files == {"a": (DayRange(D1, D1), False), "b": (None, True), "c": (None, True)}


def test_the_moment_of_a_partition_may_be_of_any_zone(tmp_path: Path) -> None:
    table = others(tmp_path, "timestamp", "order_date")
    table.commit(add("a", partitionValues={"order_date": "2025-01-02 00:00:00"}))
    assert spans(read(table).at(0).files) == {"a": DayRange(D1, D3)}


def test_a_file_whose_days_are_all_null_has_none(tmp_path: Path) -> None:
    table = others(tmp_path)
    table.commit(add("a", stats='{"numRecords": 3, "nullCount": {"order_date": 3}}'), add("b", stats=None))
    files = {each.identity: (each.touches, each.without_days, each.rows) for each in read(table).at(0).files}
    assert files == {"a": (None, True, 3), "b": (None, False, 0)}


def test_a_file_is_another_one_with_another_deletion_vector(tmp_path: Path) -> None:
    """Also one that lies in the same file of vectors, at another place; both its looks are of its days."""
    table = others(tmp_path)
    table.commit(add("a", "2025-01-01", rows=9))
    table.commit(remove("a"), add("a", "2025-01-01", rows=9, **vector(V)))
    table.commit(remove("a"), add("a", "2025-01-01", rows=9, **vector(V, offset=40, cardinality=2)))
    found = [read(table).at(version).files for version in range(3)]
    assert [[(each.identity, each.rows) for each in files] for files in found] == [
        [("a", 9)],
        [(f"a u{V}@1", 8)],
        [(f"a u{V}@40", 7)],
    ]
    _, touched = read(table).since(1, 2)
    assert [each.identity for each in touched or ()] == [f"a u{V}@1", f"a u{V}@40"]


def test_a_version_whose_files_others_have_cleaned_up_says_which_one_is_gone(tmp_path: Path) -> None:
    """Of the days that are asked for alone; a vector is gone once another one has taken its place."""
    table = others(tmp_path)
    stored = vector(V)
    name = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    table.commit(add("x=%20a", "2025-01-01"), add("b", "2025-01-02", **stored), add("/elsewhere/c", "2025-01-02"))
    (table.location / "ab").mkdir()
    for there in ("x= a", "b", name):
        (table.location / there).touch()
    table.commit(table.metadata())
    assert read(table).cleaned_up(0, DayRange(D1, D3)) == ""
    (table.location / name).unlink()
    assert read(table).cleaned_up(0, [D2]) == f"orders/{name}"
    (table.location / "x= a").unlink()
    assert (read(table).cleaned_up(0, [D1]), read(table).cleaned_up(0, [D3])) == ("orders/x= a", "")
    assert read(table).cleaned_up(1, [D1]) == "", "of the newest version nothing is cleaned up"


def test_mapped_columns_are_found_by_the_names_in_the_files(tmp_path: Path) -> None:
    table = others(tmp_path, physical="col-7")
    table.commit(add("a", "2025-01-01", by="col-7"), add("b", "2025-01-02", by="order_date"))
    there = [each.touches for each in read(table, day="Order_Date").at(0).files]
    assert there == [DayRange(D1, D1), None]
    partitioned = HandWritten(tmp_path / "parted", table.columns, ("order_date",))
    partitioned.commit(add("a", partitionValues={"col-7": "2025-01-01"}))
    assert [each.touches for each in read(partitioned).at(0).files] == [DayRange(D1, D1)]


def test_a_name_that_another_column_has_got_makes_all_files_other_ones(tmp_path: Path) -> None:
    """It was dropped and made anew, so what was in it is gone; a name that nobody reads may move as it likes."""
    table = HandWritten(tmp_path / "orders", [column("order_id", "string", "c1"), column("order_date", "date")])
    table.commit(add("a", "2025-01-01"))
    table.columns = [*table.columns, column("note", "string", "c2")]
    table.commit(table.metadata())
    table.columns = [column("order_id", "string", "c2"), column("order_date", "date"), column("note", "string", "c1")]
    table.commit(table.metadata())
    at = [read(table).at(version).files[0].identity for version in range(3)]
    assert (at[0] == at[1], at[1] == at[2]) == (True, False)
    assert (read(table).since(0, 1)[1], read(table).since(1, 2)[1]) == ([], None)
    assert read(table).since(1, 2)[0] == read(table).at(2)


def test_columns_that_are_mapped_by_their_own_names_are_what_they_were(tmp_path: Path) -> None:
    """As they are when mapping is switched on for a table that is there."""
    table = others(tmp_path)
    table.commit(add("a", "2025-01-01"))
    table.columns = [column("order_id", "string", "order_id"), column("order_date", "date", "order_date")]
    table.commit(table.metadata())
    assert read(table).since(0, 1)[1] == []
    assert read(table).at(0).files == read(table).at(1).files


def test_since_a_version_files_came_and_went_with_other_rows_or_with_the_same(tmp_path: Path) -> None:
    table = others(tmp_path)
    table.commit(add("a", "2025-01-01"), add("b", "2025-01-02"))
    table.commit(
        remove("a", changes=False), remove("b", changes=False), add("ab", "2025-01-01", "2025-01-02", changes=False)
    )
    table.commit(remove("ab"), add("c", "2025-01-01"))
    now, touched = read(table).since(0, 1)
    assert (spans(now.files), touched) == ({"ab": DayRange(D1, D2)}, [])
    now, touched = read(table).since(0, 2)
    assert spans(touched or ()) == {"ab": DayRange(D1, D2), "c": DayRange(D1, D1)}
    assert read(table).since(2, 2) == (read(table).at(2), [])


def test_where_commits_are_gone_it_is_not_known_what_came_and_went(tmp_path: Path) -> None:
    table = others(tmp_path)
    kept = [add("a", "2025-01-01", **vector(V, offset=None)), add("b", "2025-01-02")]
    table.commit(*kept)
    table.commit(add("x"))
    table.commit(remove("x"))
    table.checkpoint_2(*kept)
    table.commit(add("c", "2025-01-03"))
    there = read(table)
    now, touched = there.since(0, 3)
    assert (now.version, now.id, touched) == (3, "one", None)
    assert spans(now.files) == {f"a u{V}": DayRange(D1, D1), "b": DayRange(D2, D2), "c": DayRange(D3, D3)}
    assert there.since(2, 3)[1] == [now.files[-1]]
    assert (there.committed_on(1), there.id_at(3)) == (None, "one")
    with pytest.raises(VersionGone):
        there.at(1)


def test_a_table_that_was_made_anew_is_another_one(tmp_path: Path) -> None:
    table = others(tmp_path)
    table.commit(add("a", "2025-01-01"))
    table.id = "two"
    table.commit(table.metadata(), remove("a", changes=False), add("b", "2025-01-01", changes=False))
    now, touched = read(table).since(0, 1)
    assert (now.id, touched) == ("two", None)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("long", "'order_date' is a long there"),
        ({"type": "struct", "fields": []}, "'order_date' is a struct there"),
    ],
)
def test_a_column_that_cannot_say_a_day_is_refused_with_those_that_are_there(
    tmp_path: Path, kind: object, said: str
) -> None:
    table = others(tmp_path, kind)
    table.commit(add("a"))
    with pytest.raises(InvalidRequest, match=said) as refused:
        read(table).at(0)
    assert "order_id, order_date" in str(refused.value.hint)
    with pytest.raises(InvalidRequest, match="it is not there"):
        read(table, day="ordered").at(0)


def test_a_folder_without_a_log_and_a_catalogs_table_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LakehouseUnusable, match="orders: there is no Delta table at"):
        read(others(tmp_path)).newest()
    table = others(tmp_path)
    table.commit({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"]}})
    with pytest.raises(LakehouseUnusable, match="catalog-managed"):
        read(table).at(0)
