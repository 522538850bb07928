"""What days hold, added up over spans of them."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.plan.cost import Volumes
from backfill_assets.plan.situation import PlanContext
from backfill_assets.published.observed import LogView

BEGINS = date(2017, 3, 1)
ORDINALS = st.integers(BEGINS.toordinal(), BEGINS.toordinal() + 12)


@given(sizes=st.dictionaries(ORDINALS, st.integers(0, 1000), max_size=8), first=ORDINALS, length=st.integers(0, 14))
def test_the_bytes_between_two_days_are_those_of_each_day_between(
    sizes: dict[int, int], first: int, length: int
) -> None:
    """Also where days were never published, and past both ends."""
    days = {date.fromordinal(at): size for at, size in sizes.items()}
    content = DayContent(rows=1, checksum="1")
    states = {TableDay("fact", day): DayState("fact", day, "p", 1, "f", content) for day in days}
    volumes = Volumes(
        PlanContext(steps=(), observed=LogView(states=states), begins=BEGINS, today=BEGINS, bytes={"fact": days})
    )
    expected = sum(sizes.get(at, 0) for at in range(first, first + length))
    assert volumes.bytes_between("fact")(first, first + length) == expected
    assert volumes.bytes_between("nothing")(first, first + length) == 0
