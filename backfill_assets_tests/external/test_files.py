"""Which days of a table of others moved, by its files alone: against the rows themselves, in plain Python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date

from hypothesis import given

from backfill_assets.days import DayRange
from backfill_assets.external.files import (
    BYTES,
    FILES,
    NO_FILES,
    NOTHING_MOVED,
    VERSION,
    ExternalFile,
    Moved,
    days_made_of,
    moved_days,
    possible_days,
)
from backfill_assets.lakehouse.records import DayContent
from backfill_assets_tests.external.model_of_others import (
    COMPACTIONS,
    COMPACTIONS_OF_DAYS,
    DAYS,
    HISTORIES,
    HISTORIES_OF_DAYS,
    Commit,
    TableOfOthers,
)

D1, D2, D3, D4, *_ = DAYS
Known = Mapping[date, DayContent]


def a_file(name: str, first: date | None, last: date | None = None) -> ExternalFile:
    return ExternalFile(name, 1, 10, DayRange(first, last or first) if first else None)


def looked_at(table: TableOfOthers, known: Known, touched: Collection[ExternalFile] | None) -> Moved:
    return moved_days(known, days_made_of(table.said(), DAYS), 7, touched)


def after(known: Known, moved: Moved) -> dict[date, DayContent]:
    return {**known, **moved.changed, **moved.renewed}


def known_of(table: TableOfOthers) -> dict[date, DayContent]:
    return after({}, looked_at(table, {}, None))


@given(HISTORIES, HISTORIES, HISTORIES)
def test_a_day_with_other_rows_is_never_missed(first: list[Commit], second: list[Commit], third: list[Commit]) -> None:
    """At two looks in turn: what the second one knows of a day is of the first look, or of older ones."""
    table = TableOfOthers()
    table.play(first)
    known = known_of(table)
    for then in (second, third):
        before = table.rows()
        moved = looked_at(table, known, table.play(then))
        differ = {day for day in DAYS if table.rows().get(day) != before.get(day)}
        assert differ <= moved.changed.keys()
        assert not moved.changed.keys() & moved.renewed.keys()
        known = after(known, moved)
        assert looked_at(table, known, None) == NOTHING_MOVED, "all of it is known now"


@given(HISTORIES, HISTORIES)
def test_without_the_commits_since_then_no_day_is_missed_either(first: list[Commit], then: list[Commit]) -> None:
    table = TableOfOthers()
    table.play(first)
    known, before = known_of(table), table.rows()
    table.play(then)
    moved = looked_at(table, known, None)
    assert {day for day in DAYS if table.rows().get(day) != before.get(day)} <= moved.changed.keys()
    assert not moved.renewed


@given(HISTORIES, COMPACTIONS)
def test_a_commit_without_other_rows_makes_no_known_day_stale(first: list[Commit], then: list[Commit]) -> None:
    table = TableOfOthers()
    table.play(first)
    known = known_of(table)
    moved = looked_at(table, known, table.play(then))
    assert not moved.changed.keys() & known.keys()
    assert all(moved.renewed[day].checksum == known[day].checksum for day in moved.renewed)


@given(HISTORIES_OF_DAYS, COMPACTIONS_OF_DAYS)
def test_nor_any_other_day_if_files_say_their_days(first: list[Commit], then: list[Commit]) -> None:
    table = TableOfOthers()
    table.play(first)
    moved = looked_at(table, known_of(table), table.play(then))
    assert all(not content.metrics[FILES] or not table.rows().get(day) for day, content in moved.changed.items())


@given(HISTORIES, HISTORIES)
def test_a_day_is_the_same_if_and_only_if_its_files_are(first: list[Commit], then: list[Commit]) -> None:
    """Also where rows went by a deletion vector alone."""

    def touching(files: Collection[ExternalFile], day: date) -> set[str]:
        of_any_day = [each for each in files if not each.without_days]
        return {each.identity for each in of_any_day if each.touches is None or day in each.touches}

    table = TableOfOthers()
    table.play(first)
    one = table.said()
    table.play(then)
    other = table.said()
    made_of_one, made_of_other = days_made_of(one, DAYS), days_made_of(other, DAYS)
    for day in made_of_one.keys() & made_of_other.keys():
        is_same = made_of_one[day].identity == made_of_other[day].identity
        assert is_same == (touching(one, day) == touching(other, day))


@given(HISTORIES)
def test_days_follow_each_other_and_no_row_is_on_another_one(history: list[Commit]) -> None:
    table = TableOfOthers()
    table.play(history)
    days = days_made_of(table.said(), DAYS)
    assert list(days) == list(DayRange(min(days), max(days)))
    assert {day for day in table.rows() if day in DAYS} <= days.keys()
    assert all(days[day].rows >= rows.total() for day, rows in table.rows().items() if day in days)


def test_a_file_without_statistics_may_have_rows_on_any_possible_day() -> None:
    """Also before the first and after the last day that another file says."""
    days = days_made_of([a_file("a", D2, D3), a_file("b", None)], DAYS)
    assert list(days) == list(DAYS)
    assert {day: made.files for day, made in days.items() if day in (D1, D2, D4)} == {D1: 1, D2: 2, D4: 1}
    before = moved_days({}, days_made_of([a_file("a", D2)], DAYS), 1, None).changed
    assert moved_days(before, days, 2, [a_file("b", None)]).changed.keys() == set(DAYS)


def test_a_file_without_a_row_that_has_a_day_is_of_no_day() -> None:
    nowhere = ExternalFile("c", 3, 10, None, without_days=True)
    known = moved_days({}, days_made_of([a_file("a", D1, D2)], DAYS), 1, None).changed
    assert moved_days(known, days_made_of([a_file("a", D1, D2), nowhere], DAYS), 2, [nowhere]) == NOTHING_MOVED


def test_a_day_between_others_has_no_rows_and_one_whose_files_went_has_none_any_more() -> None:
    days = days_made_of([a_file("a", D1), a_file("b", D3)], DAYS)
    assert [days[day].files for day in days] == [1, 0, 1]
    known = moved_days({}, days, 1, None).changed
    gone = moved_days(known, days_made_of([a_file("a", D1)], DAYS), 2, [a_file("b", D3)])
    assert {day: (content.rows, content.metrics[FILES]) for day, content in gone.changed.items()} == {D3: (0, 0)}


def test_a_table_without_files_has_all_possible_days() -> None:
    assert days_made_of([], DAYS) == dict.fromkeys(DAYS, NO_FILES)


def test_what_is_renewed_keeps_what_it_is_and_says_where_it_lies() -> None:
    known = moved_days({}, days_made_of([a_file("a", D1)], DAYS), 3, None).changed
    moved = moved_days(known, days_made_of([a_file("b", D1)], DAYS), 9, [])
    assert not moved.changed
    assert (moved.renewed[D1].checksum, moved.renewed[D1].rows) == (known[D1].checksum, 1)
    assert (moved.renewed[D1].metrics[VERSION], moved.renewed[D1].metrics[BYTES]) == (9, 10)


def test_days_are_possible_from_the_first_one_until_the_day_after_the_newest_commit() -> None:
    assert possible_days(D1, D3) == DayRange(D1, D4)
    assert possible_days(D3, D1) == DayRange(D3, D3)


def test_a_file_of_many_days_counts_for_each_with_its_share() -> None:
    """Else 90 days in one file would be read in 45 parts, and the file 45 times."""
    days = DayRange.parse("2025-01-01..2025-01-10")
    wide, one = ExternalFile("wide", 10, 1_000, days), ExternalFile("one", 1, 7, DayRange.of(days.first))
    made = days_made_of([wide, one], days)
    assert [made[day].bytes for day in days] == [107, *[100] * 9]
    assert sum(each.bytes for each in made.values()) == 1_007
