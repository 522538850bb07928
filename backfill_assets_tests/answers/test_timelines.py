"""The numbers that people read of a timeline."""

from __future__ import annotations

from datetime import UTC, date, datetime

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import HeldDay, NamedTimeline, TimelineBase
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.timeline.summary import size_of, tables_of, tables_on

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))


def held(day: date, rows: int, code: str = "v1", size: int = 10) -> HeldDay:
    file = AddedFile(path=f"{day}-{rows}", size=size, day=str(day), modified_ms=0, stats="")
    return HeldDay(day=day, content=DayContent(rows=rows, checksum=str(rows), code_version=code), files=(file,))


def timeline(*days: HeldDay) -> NamedTimeline:
    return NamedTimeline(
        id="timeline-x", name="x", made_at=NOW, base=TimelineBase(), changed_at=NOW, days={"fact": days} if days else {}
    )


def test_days_rows_versions_and_what_differs_are_counted() -> None:
    found = timeline(held(FIRST, 2), held(SECOND, 3, "v2"), HeldDay(day=THIRD))
    main = {"fact": {FIRST: held(FIRST, 2, "v9"), THIRD: held(THIRD, 1), date(2017, 3, 9): held(THIRD, 5)}}
    (fact,) = tables_on(found, main)
    assert (fact.table, fact.days, fact.rows, fact.versions) == ("fact", (FIRST, SECOND, THIRD), 5, ("v1", "v2"))
    assert fact.differing == {SECOND, THIRD}, "days with the same content are equal, by whichever version"
    assert tables_on(found, {})[0].differing == {FIRST, SECOND}, "a day that neither has is equal"


def test_the_size_is_that_of_all_files_it_names() -> None:
    found = timeline(held(FIRST, 2, size=10), held(SECOND, 3, size=5))
    assert size_of(found) == 15
    assert tables_of([found, timeline()]) == {"fact"}
    assert size_of(timeline()) == 0 and tables_on(timeline(), {}) == []
