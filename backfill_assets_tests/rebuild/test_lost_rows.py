"""Where the rows of lost files are, by what logs say of files; and when a day stays as it is, with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date

import pytest

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import Before, DayChange, Kind, Prepared, Publication, TableChange
from backfill_assets.rebuild.lost_rows import LostDay, may_hold, parts_of, place_of, with_parts

DAY, OTHER = date(2017, 3, 1), date(2017, 3, 2)


def file(name: str, rows: int = 1, **stats: Mapping[str, object]) -> AddedFile:
    return AddedFile(name, str(DAY), 100, 0, json.dumps({"numRecords": rows, **stats}))


def made(kind: Kind, before: str, after: str, day: date = DAY) -> Prepared:
    """A publication of one day; a file is a letter."""
    changed = DayChange(day=day, adds=tuple(map(file, after)), content=None)
    change = TableChange(table="raw", table_schema="{}", days=(changed,))
    publication = Publication(id="p", kind=kind, tables=(change,))
    images = {"raw": {day: Before(files=tuple(map(file, before)))}}
    return Prepared(publication=publication, before=images, window_days=1)


@pytest.mark.parametrize(
    ("history", "lost", "read"),
    [
        ([], "", "z"),
        ([], "z", "z"),
        ([made("compact", "ab", "z")], "", "z"),
        ([made("compact", "ab", "z")], "z", "ab"),
        # One that was kept is no part; what was compacted twice is looked for twice.
        ([made("compact", "kab", "kz")], "z", "ab"),
        ([made("compact", "ab", "y"), made("compact", "yc", "z")], "z", "yc"),
        ([made("compact", "ab", "y"), made("compact", "yc", "z")], "zy", "abc"),
        # Reclaimed parts name what they held: from there it is read again.
        ([made("compact", "ab", "z")], "zab", "ab"),
        # Which of several files has which rows is not known.
        ([made("compact", "ab", "zx")], "z", "z"),
        ([made("replace", "ab", "z")], "z", "z"),
        ([made("compact", "ab", "z", OTHER)], "z", "z"),
    ],
)
def test_a_lost_file_is_made_up_of_what_a_compaction_has_replaced(
    history: list[Prepared], lost: str, read: str
) -> None:
    parts = parts_of(history, "raw", DAY)
    found = with_parts(file("z"), parts, lambda each: each.path in lost)
    assert sorted(each.path for each in found) == sorted(read)


BOUNDS = {"minValues": {"source_file": "s/2017-03-01/b"}, "maxValues": {"source_file": "s/2017-03-02/a"}}


@pytest.mark.parametrize(
    ("stats", "place", "may"),
    [
        ({}, "s/2017-03-09/a", True),
        (BOUNDS, "s/2017-03-01/a", False),
        (BOUNDS, "s/2017-03-01/b", True),
        (BOUNDS, "s/2017-03-02/a", True),
        (BOUNDS, "s/2017-03-02/b", False),
        ({"nullCount": {"source_file": 1}}, "s/2017-03-01/b", False),
    ],
)
def test_statistics_say_which_landed_files_a_file_may_have_rows_of(
    stats: Mapping[str, Mapping[str, object]], place: str, may: bool
) -> None:
    """A file of markers alone has rows of none."""
    assert may_hold(file("a", 1, **stats), place) is may


@pytest.mark.parametrize(
    ("position", "place"),
    [
        ("landed:sales:sales/2017-03-01/a:b.jsonl.gz", "sales/2017-03-01/a:b.jsonl.gz"),
        ("kafka:sales:orders:0", "kafka:orders/0"),
        ("kafka:sales:orders@2:11", "kafka:orders@2/11"),
    ],
)
def test_positions_are_called_as_rows_call_their_source(position: str, place: str) -> None:
    assert place_of(position) == place


@pytest.mark.parametrize(
    ("recorded", "found", "said"),
    [
        ({"rows": "9", "checksum": "-5"}, {"rows": 9, "checksum": -5}, ""),
        # Of rows with other columns the checksum was not compared.
        ({"rows": "9"}, {"rows": 9, "checksum": -6}, ""),
        ({"rows": "9"}, {"rows": 7}, "2 rows of them are nowhere else; a is gone"),
        ({"rows": "9"}, {}, "9 rows of them are nowhere else; a is gone"),
        ({"rows": "9"}, {"rows": 10}, "what can be read again are other rows than were published; a is gone"),
        ({"rows": "9", "checksum": "5"}, {"rows": 9, "checksum": 6}, "other rows than were published; a is gone"),
        ({}, {"rows": 9}, "f0: a is gone"),
    ],
)
def test_a_day_is_put_back_as_it_was_or_not_at_all(
    recorded: Mapping[str, str], found: Mapping[str, int], said: str
) -> None:
    lost = LostDay(DAY, recorded, (file("f0", 3),), problems=("a is gone",))
    reason = lost.refusal(found)
    assert reason.startswith(f"{DAY} has lost 3 rows with f0: ") if said else not reason
    assert reason.endswith(said)
