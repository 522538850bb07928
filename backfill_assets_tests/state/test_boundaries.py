"""The boundary of days: the least of what was read, days grouped by it, and how it is said."""

from __future__ import annotations

from datetime import date

from backfill_assets.lakehouse.records import PartitionPosition
from backfill_assets.state.boundaries import (
    DaysBoundary,
    RawBoundary,
    boundary_line,
    boundary_value,
    group_days,
    lowest,
    merge_tables,
    read_text,
    versions_text,
)

FIRST, SECOND, THIRD = date(2017, 3, 1), date(2017, 3, 2), date(2017, 3, 3)


def at(version: int, *offsets: int, files: int | None = 0, unknown: str = "") -> RawBoundary:
    """Raw sales at ``version``; offsets by partition."""
    positions = tuple(
        PartitionPosition("orders", n, offset, 10 if n == 0 else None) for n, offset in enumerate(offsets)
    )
    return RawBoundary("raw_sales", (version,), positions, files, FIRST if files else None, unknown)


def test_a_period_from_several_versions_has_what_all_of_them_had_read() -> None:
    """A partition that one version does not have was not read there."""
    assert lowest([at(3, 20, 7), at(4, 25, 5)]) == RawBoundary(
        "raw_sales",
        (3, 4),
        (PartitionPosition("orders", 0, 20, 10), PartitionPosition("orders", 1, 5)),
        0,
        None,
    )
    assert lowest([at(3, 20), at(4, 25, 5)]).positions == (
        PartitionPosition("orders", 0, 20, 10),
        PartitionPosition("orders", 1, 0),
    )
    assert lowest([at(7, 20)]) == at(7, 20)
    assert lowest([at(3, 20), at(4, 20)]).versions == (3, 4)


def test_what_is_not_known_of_one_version_is_not_known_of_all() -> None:
    """A count of files would be a guess."""
    least = lowest([at(3, 20, files=None, unknown="cleaned up"), at(4, 25, files=2)])
    assert (least.landed_files, least.newest_arrival, least.unknown) == (None, None, "cleaned up")
    least = lowest([at(3, 20, files=1), at(4, 25, files=2)])
    assert (least.landed_files, least.newest_arrival) == (1, FIRST)


def test_days_with_one_boundary_are_one_group() -> None:
    """Also if a compaction made another version between them."""
    found = group_days({SECOND: [at(4, 20)], FIRST: [at(3, 20)], THIRD: [at(9, 30)]}, "bronze_sales")
    assert [(each.days, each.boundary.versions) for each in found] == [((FIRST, SECOND), (3, 4)), ((THIRD,), (9,))]


def test_tables_with_the_same_days_and_boundary_are_said_once() -> None:
    """As a campaign brings them."""
    found = merge_tables(
        DaysBoundary((table,), days, at(3, 20))
        for table, days in (("bronze", (FIRST,)), ("fact", (FIRST,)), ("weekly", (SECOND,)))
    )
    assert [each.tables for each in found] == [("bronze", "fact"), ("weekly",)]


def test_a_boundary_in_words() -> None:
    """With the offset at which history ended, and the landed files."""
    each = DaysBoundary(("bronze_sales",), (FIRST, SECOND), at(12, 1_234_567, 9, files=1))
    read = "topic orders: partition 0 up to offset 1,234,567 (live since 10), partition 1 up to offset 9"
    landed = "1 landed file, the newest of 2017-03-01"
    days = "bronze_sales 2017-03-01..2017-03-02"
    assert boundary_line(each) == f"{days} from raw_sales version 12: {read}; {landed}"
    raw = DaysBoundary(("raw_sales",), (FIRST,), at(12, 20))
    assert boundary_line(raw).startswith(
        "raw_sales 2017-03-01 at version 12: topic orders: partition 0 up to offset 20"
    )
    assert versions_text((3, 5, 9)) == "versions 3 to 9"
    assert read_text(at(1)) == "nothing" and read_text(at(1, unknown="cleaned up")) == "cleaned up"


def test_a_boundary_for_programs() -> None:
    """Nothing is rounded or left out."""
    assert boundary_value(DaysBoundary(("fact",), (FIRST, SECOND), at(12, 11, files=1))).plain() == {
        "tables": ["fact"],
        "days": ["2017-03-01..2017-03-02"],
        "raw": "raw_sales",
        "versions": [12],
        "positions": [{"topic": "orders", "partition": 0, "next_offset": 11, "live_since": 10}],
        "landed_files": 1,
        "newest_arrival": "2017-03-01",
        "unknown": "",
    }
