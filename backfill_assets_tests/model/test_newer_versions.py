"""Which markers a key lacks: known answers, in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.model.newer_versions import DueMarker, VersionRow, due_markers

WINDOW = 7


def on(day: int, at: int, **changes: object) -> VersionRow:
    found = date(2017, 3, day)
    return replace(VersionRow(at, 100 + at, found, found), **changes)  # type: ignore[arg-type]


def marker(day: int, newer: VersionRow, **changes: object) -> VersionRow:
    changed = {"day": date(2017, 3, day), "belongs_to": newer.day, "marker": True, "written": ("a",), **changes}
    return replace(newer, **changed)  # type: ignore[arg-type]


def moves(due: Sequence[DueMarker]) -> list[tuple[int, int, bool]]:
    return sorted((each.day.day, each.version.belongs_to.day, each.version.marker) for each in due)


def test_the_day_that_loses_gets_a_marker_however_they_arrived() -> None:
    older, newer = on(1, 1), on(4, 2)
    for versions in ([older, newer], [newer, older]):
        assert due_markers(versions, WINDOW) == [DueMarker(older.day, newer)]


def test_at_one_moment_the_greater_content_wins() -> None:
    one, other = on(1, 1, hash=5), on(4, 1, hash=-5)
    assert due_markers([one, other], WINDOW) == [DueMarker(other.day, one)]


def test_what_gets_no_marker() -> None:
    """The same day, too far away, one that is there already, and a version on its own."""
    assert due_markers([on(1, 1), on(1, 2)], WINDOW) == []
    assert due_markers([on(1, 1), on(9, 2)], WINDOW) == []
    assert moves(due_markers([on(1, 1), on(8, 2)], WINDOW)) == [(1, 8, False)]
    assert due_markers([on(1, 1), on(4, 2), marker(1, on(4, 2))], WINDOW) == []
    assert due_markers([on(1, 1)], WINDOW) == []


def test_each_version_is_marked_on_each_day_that_has_an_older_one() -> None:
    assert moves(due_markers([on(1, 1), on(4, 2), on(5, 3)], WINDOW)) == [(1, 4, False), (1, 5, False), (4, 5, False)]


def test_a_key_may_have_thousands_of_versions() -> None:
    """A version is compared with the oldest one of each day, and not with all."""
    many = [on(4, at) for at in range(1, 5_001)]
    assert len(due_markers([on(1, 0), *many], WINDOW)) == len(many)


def test_a_version_that_was_taken_back_supersedes_nothing() -> None:
    """Its marker is deleted, as often as it is there, unless another copy of it stands."""
    older, newer = on(1, 1), on(4, 2)
    gone, mark = replace(newer, deleted=True), marker(1, newer)
    assert due_markers([older, newer, gone], WINDOW) == []
    assert due_markers([older, newer, gone, mark, mark], WINDOW) == [DueMarker(older.day, mark)] * 2
    assert due_markers([older, newer, newer, gone, mark], WINDOW) == []
    assert due_markers([older, newer, gone, mark, replace(mark, deleted=True)], WINDOW) == []


def test_only_the_deletion_of_its_version_makes_a_marker_obsolete() -> None:
    """One whose version is out of sight stays: it may be further away than the rows that were looked at."""
    assert due_markers([on(1, 1), marker(1, on(4, 2))], WINDOW) == []
    assert due_markers([on(1, 1), marker(1, on(4, 2)), on(4, 3, deleted=True)], WINDOW) == []


ROWS = st.builds(on, st.integers(1, 12), st.integers(0, 3))


@given(st.lists(ROWS, max_size=8), st.data())
def test_markers_do_not_depend_on_order_or_chunks(rows: list[VersionRow], data: st.DataObject) -> None:
    """Raw comes out the same however it was ingested."""
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    assert _ingested(shuffled[:cut], shuffled[cut:]) == _ingested(rows)


def _ingested(*chunks: Sequence[VersionRow]) -> set[VersionRow]:
    raw: list[VersionRow] = []
    for chunk in chunks:
        raw += chunk
        raw += [marker(due.day.day, due.version) for due in due_markers(raw, WINDOW)]
    assert len([row for row in raw if row.marker]) == len({row for row in raw if row.marker})
    return set(raw)
