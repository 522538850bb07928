"""Rows that arrive after the moment of a timeline are taken once, however often it goes forward, or left out."""

from __future__ import annotations

from typing import Any

from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, contents, held, land_late
from backfill_assets_tests.workshop import Workshop

RAW, BRONZE = "raw_sales", "bronze_sales"


def test_arrivals_are_counted_and_taken_once_or_left_out(wrong: Workshop, backfill: Backfill) -> None:
    """In the end the timeline has what main has once it has built the same rows by the same version."""

    def forward(name: str, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = backfill.json("timeline", "forward", name, "--version", "v1", *words)
        return found

    newest = backfill.json("history", "--limit", 1)["publications"][0]["publication"]
    then = len(wrong.read(RAW))
    made = backfill.json("timeline", "rewind", BRONZE, "--to", newest, "--days", DAYS, "--as", "again")
    backfill("timeline", "rewind", FACT, "--to", newest, "--days", DAYS, "--as", "of-the-fact")
    sales = raw(made)["then"]
    assert (sales["rows"], sales["landed_files"], sales["newest_arrival"]) == (then, len(DAYS), str(DAYS.last))

    land_late(wrong, "late", 3, built=(RAW,))
    done = forward("again", "--without-arrivals", "--as", "logic")
    assert step(done, BRONZE)["staged"] == [] == step(done, BRONZE)["from_main"]
    assert step(done, FACT)["staged"] == [str(DAYS)], "its current version is another one"
    assert arrived(done) == arrived(done, "arrived_since_last") == {} and raw(done)["now"] == sales
    sessions = wrong.sessions
    same = forward("again", "--without-arrivals", "--as", "logic-too")
    assert step(same, FACT)["staged"] == step(done, FACT)["staged"] and wrong.sessions == sessions, "computed once"
    assert backfill.json("diff", "logic", "logic-too", "--table", FACT)["tables"] != []

    done = forward("again")
    assert step(done, BRONZE)["staged"] == [str(LATE_DAY)]
    assert arrived(done, "arrived_since_last") == arrived(done) == {str(LATE_DAY): 3}
    assert raw(done)["now"]["rows"] == len(wrong.read(RAW)) == then + 3
    assert raw(done)["now"]["landed_files"] == len(DAYS) + 1
    sessions = wrong.sessions
    done = forward("again")
    assert arrived(done, "arrived_since_last") == {} and arrived(done) == {str(LATE_DAY): 3}
    assert wrong.sessions == sessions

    land_late(wrong, "later", 2, built=(RAW,))
    done = forward("again")
    assert arrived(done, "arrived_since_last") == {str(LATE_DAY): 2}
    assert arrived(backfill.json("timeline", "show", "again")) == {str(LATE_DAY): 5}
    assert len(wrong.read(RAW)) == then + 5 == raw(done)["now"]["rows"]
    shown = backfill("timeline", "show", "again").output
    assert f"raw_sales: {then} rows at its moment" in shown and f"5 rows since on {LATE_DAY}" in shown

    # The other timeline reads bronze as main has it, which has not taken them in.
    done = forward("of-the-fact")
    assert arrived(done, "arrived_since_last") == {str(LATE_DAY): 5}
    assert {row["table"]: row["days"] for row in done["waiting"]} == {
        BRONZE: [str(LATE_DAY)],
        "quarantine_sales": [str(LATE_DAY)],
    }
    wrong.build(BRONZE, DAYS)
    done = forward("of-the-fact")
    assert step(done, FACT)["staged"] == [str(LATE_DAY)] and "waiting" not in done
    wrong.build_all(DAYS, "v1")
    wrong.build_reports(DAYS)
    main = contents(wrong)
    assert held(wrong, "of-the-fact") == {key: main[key] for key in held(wrong, "of-the-fact")}


def step(done: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in done["steps"] if each["table"] == name)


def raw(done: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in done["raw"] if each["then"]["table"] == RAW)


def arrived(done: dict[str, Any], which: str = "arrived") -> dict[str, int]:
    return {each["day"]: each["rows"] for each in raw(done)[which]}
