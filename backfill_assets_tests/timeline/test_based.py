"""The base of a new timeline: what is published, a moment before, or another timeline; and that it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow.compute as pc
import pytest

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.named_timelines import NamedTimeline, create_timeline, delete_timeline
from backfill_assets.state.view import View
from backfill_assets.timeline.rewind import timeline_based_on
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.small_lakehouse import SmallLakehouse, published_twice

pytestmark = pytest.mark.protocol
REVENUE = "fact_daily_revenue"
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)
A_CENTURY = 60 * 24 * 365 * 100


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = published_twice(tmp_path, REVENUE, FIRST, SECOND)
    with clock.use(found.time):
        yield found


def create(lakehouse: SmallLakehouse, base: str, name: str = "x") -> NamedTimeline:
    made = timeline_based_on(lakehouse.storage, base, name, "ana", lakehouse.now())
    return create_timeline(lakehouse.storage, made)


def ids(lakehouse: SmallLakehouse, timeline: NamedTimeline) -> list[int]:
    opened = View.of(lakehouse.storage, timeline)
    rows = opened.rows(REVENUE, columns=["id"])
    assert rows is not None
    found = sorted(rows.column("id").to_pylist())
    assert found == sorted(opened.dataset(REVENUE).to_table().column("id").to_pylist())
    return found


def test_days_read_through_to_the_moment(lakehouse: SmallLakehouse) -> None:
    assert ids(lakehouse, create(lakehouse, "one")) == [1, 2, 3]
    assert ids(lakehouse, create(lakehouse, "main", "y")) == [1, 2, 4, 5]
    at_the_first = create(lakehouse, "2017-06-01T12:01:30", "z")
    assert ids(lakehouse, at_the_first) == [1, 2, 3] and at_the_first.change.startswith("created at 2017-06-01")


def test_another_timeline_is_a_base_with_its_days(lakehouse: SmallLakehouse) -> None:
    held = View.of(lakehouse.storage, create(lakehouse, "one", "then")).held(REVENUE)[SECOND]
    first = create(lakehouse, "main", "now").with_days({REVENUE: {SECOND: held}})
    other = create_timeline(lakehouse.storage, first.model_copy(update={"id": f"{first.id}2", "name": "held"}))
    copied = create(lakehouse, "held", "copy")
    assert copied.days == other.days and copied.base == other.base and copied.id != other.id
    assert ids(lakehouse, copied) == [1, 2, 3]
    view = View.of(lakehouse.storage, copied)
    rows = view.rows(REVENUE, chosen=pc.field("day") == SECOND)
    assert rows is not None and rows.column("id").to_pylist() == [3] and view.table("nothing") is None


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("1", "1 is a version of one table"),
        ("elsewhere", "There is no publication 'elsewhere'"),
        ("2017-01-01", "Nothing was published by 2017-01-01"),
    ],
)
def test_what_names_no_state_of_all_tables_is_refused(lakehouse: SmallLakehouse, base: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        create(lakehouse, base)


def test_a_base_is_kept_until_its_timeline_is_deleted_and_is_refused_afterwards(lakehouse: SmallLakehouse) -> None:
    made = create(lakehouse, "one")
    (file,) = View.of(lakehouse.storage, made).held(REVENUE)[SECOND].files
    lakehouse.minutes += A_CENTURY
    lakehouse.publish("three", {REVENUE: {FIRST: [6]}})
    lakehouse.minutes += A_CENTURY
    reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
    assert lakehouse.storage.missing([f"{REVENUE}/{file.path}"]) == []
    assert ids(lakehouse, made) == [1, 2, 3]
    delete_timeline(lakehouse.storage, made, lakehouse.now())
    reclaim(lakehouse.publisher, REVENUE, clock_checked=True)
    assert lakehouse.storage.missing([f"{REVENUE}/{file.path}"]) != []
    with pytest.raises(PublicationRefused, match=f"{REVENUE}: 2 files gone, the earliest moment is three"):
        create(lakehouse, "one", "y")
