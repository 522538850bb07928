"""What is said of a timeline: its days beside main, its size, and what arrived since its moment."""

from __future__ import annotations

from datetime import UTC, date, datetime

from backfill_assets.answers.timelines import FoundTimeline, raw_since_then, timeline_answer, timelines_answer
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.named_timelines import ArrivedRows, NamedTimeline, RawRead, TimelineBase, TimelineVersion
from backfill_assets.lakehouse.records import DayContent, DayRecord
from backfill_assets.report.answer import Days, shown

NOW = datetime(2017, 6, 1, tzinfo=UTC)
FIRST, SECOND, THIRD = (date(2017, 3, day) for day in (1, 2, 3))


def held(day: date, rows: int, code: str = "v1", size: int = 10) -> DayRecord:
    file = AddedFile(path=f"{day}-{rows}", size=size, day=str(day), modified_ms=0, stats="")
    return DayRecord(day=day, content=DayContent(rows=rows, checksum=str(rows), code_version=code), files=(file,))


def timeline(*days: DayRecord) -> NamedTimeline:
    return NamedTimeline(
        id="timeline-x", name="x", made_at=NOW, base=TimelineBase(), changed_at=NOW, days={"fact": days} if days else {}
    )


def test_days_rows_versions_and_what_differs_are_counted() -> None:
    """Days with the same content are equal, by whichever version; so is a day that neither has."""
    found = timeline(held(FIRST, 2), held(SECOND, 3, "v2"), DayRecord(day=THIRD))
    main = {"fact": {FIRST: held(FIRST, 2, "v9"), THIRD: held(THIRD, 1), date(2017, 3, 9): held(THIRD, 5)}}
    (row,) = timeline_answer(FoundTimeline(found, main, {})).table("tables").rows
    assert row == ("fact", 3, 5, 2, "v1, v2", Days((FIRST, SECOND, THIRD)))
    (row,) = timeline_answer(FoundTimeline(found, {}, {})).table("tables").rows
    assert row[3] == 2


def test_the_size_is_that_of_all_files_it_names() -> None:
    (row,) = timelines_answer([timeline(held(FIRST, 2, size=10), held(SECOND, 3, size=5))]).as_json()["timelines"]
    assert (row["timeline"], row["tables"], row["days"], row["size"]) == ("x", 1, 2, 15)
    assert timelines_answer([]).as_json()["timelines"] == []


def test_one_of_a_version_says_how_far_behind_it_is() -> None:
    of = timeline().model_copy(update={"of_version": TimelineVersion(step="fact", version="v1", fresh=True)})
    facts = timeline_answer(FoundTimeline(of, {}, {}, behind=3)).facts()
    assert (facts["step"], facts["version"], facts["fresh"], facts["days behind"]) == ("fact", "v1", True, 3)
    assert "step" not in timeline_answer(FoundTimeline(timeline(), {}, {})).facts()


def test_stale_days_come_with_the_reason_and_the_command() -> None:
    answer = timeline_answer(FoundTimeline(timeline(held(FIRST, 2)), {}, {"fact": {FIRST: "is old", SECOND: "is odd"}}))
    assert answer.as_json()["stale"] == [
        {"table": "fact", "days": [str(FIRST)], "why": "is old"},
        {"table": "fact", "days": [str(SECOND)], "why": "is odd"},
    ]
    assert answer.next[:2] == ("backfill timeline forward x", f"backfill run fact --days {SECOND} --on x")


def test_arrivals_are_a_sentence_for_people_and_numbers_for_programs() -> None:
    then, now = (RawRead(table="raw", version=n, sequence=n, rows=n, checksum="1") for n in (3, 5))
    arrived = (ArrivedRows(day=FIRST, rows=2, checksum="7"), ArrivedRows(day=SECOND, rows=None))
    raw = raw_since_then(then, now, arrived)
    unknown = f"of {SECOND} it is not known, they have a foreign write"
    on = f"{FIRST}..{SECOND}"
    assert shown(raw) == f"raw: 3 rows at its moment, version 3; 2 rows since on {on}; {unknown}; 5 in version 5"
    assert shown(raw_since_then(then, None, ())) == "raw: 3 rows at its moment, version 3"
    assert raw.plain() == {
        "then": then.model_dump(mode="json"),
        "now": now.model_dump(mode="json"),
        "arrived": [each.model_dump(mode="json") for each in arrived],
        "arrived_since_last": [],
    }
