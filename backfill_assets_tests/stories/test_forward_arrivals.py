"""Rows that arrive after the moment of a timeline are taken once, however often it goes forward, or left out."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets.cli import foreground
from backfill_assets_tests.cli.command import backfill, types
from backfill_assets_tests.played_lake import no_spark
from backfill_assets_tests.stories.staged_campaign import DAYS, FACT, LATE_DAY, land_late
from backfill_assets_tests.workshop import Workshop

RAW, BRONZE = "raw_sales", "bronze_sales"


def test_arrivals_are_counted_and_taken_once_or_left_out(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    (newest, *_) = types("history", "--limit", "1")["publications"]
    then = len(wrong.read(RAW))
    made = types("timeline", "rewind", BRONZE, "--to", newest["publication"], "--days", str(DAYS), "--as", "again")
    sales = raw(made)["then"]
    assert (sales["rows"], sales["landed_files"], sales["newest_arrival"]) == (then, len(DAYS), str(DAYS.last))

    arrive(wrong, "late", 3)
    done = types("timeline", "forward", "again", "logic", "--version", "v1", "--without-arrivals")
    assert step(done, BRONZE)["staged"] == [] == step(done, BRONZE)["from_main"]
    assert step(done, FACT)["staged"] == [str(DAYS)], "its current version is another one"
    assert arrived(done) == arrived(done, "arrived_since_last") == {} and raw(done)["now"] == sales
    with monkeypatch.context() as patch:
        patch.setattr(foreground, "foreground_spark", no_spark)
        same = types("timeline", "forward", "again", "logic-too", "--version", "v1", "--without-arrivals")
    assert step(same, FACT)["staged"] == step(done, FACT)["staged"], "what both share is computed once"
    assert types("diff", "logic", "logic-too", "--table", FACT)["tables"] != []

    done = types("timeline", "forward", "again", "--version", "v1")
    assert step(done, BRONZE)["staged"] == [str(LATE_DAY)]
    assert arrived(done, "arrived_since_last") == arrived(done) == {str(LATE_DAY): 3}
    assert raw(done)["now"]["rows"] == len(wrong.read(RAW)) == then + 3
    assert raw(done)["now"]["landed_files"] == len(DAYS) + 1

    with monkeypatch.context() as patch:
        patch.setattr(foreground, "foreground_spark", no_spark)
        done = types("timeline", "forward", "again", "--version", "v1")
    assert arrived(done, "arrived_since_last") == {} and arrived(done) == {str(LATE_DAY): 3}

    arrive(wrong, "later", 2)
    done = types("timeline", "forward", "again", "--version", "v1")
    assert arrived(done, "arrived_since_last") == {str(LATE_DAY): 2}
    assert arrived(types("timeline", "show", "again")) == {str(LATE_DAY): 5}
    assert len(wrong.read(RAW)) == then + 5 == raw(done)["now"]["rows"]
    shown = backfill("timeline", "show", "again").output
    assert f"raw_sales: {then} rows at its moment" in shown and f"5 rows since on {LATE_DAY}" in shown


def test_rows_that_main_has_not_taken_in_are_named(wrong: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fact reads bronze as main has it."""
    monkeypatch.setenv("BACKFILL_HOME", str(wrong.settings.home))
    before = types("history", FACT)["publications"][0]["publication"]
    types("timeline", "rewind", FACT, "--to", before, "--days", str(DAYS), "--as", "again")
    arrive(wrong, "late", 3)
    done = types("timeline", "forward", "again", "--version", "v1")
    assert arrived(done, "arrived_since_last") == {str(LATE_DAY): 3}
    assert {row["table"]: row["days"] for row in done["waiting"]} == {
        BRONZE: [str(LATE_DAY)],
        "quarantine_sales": [str(LATE_DAY)],
    }
    wrong.build(BRONZE, DAYS)
    done = types("timeline", "forward", "again", "--version", "v1")
    assert step(done, FACT)["staged"] == [str(LATE_DAY)] and "waiting" not in done


def arrive(workshop: Workshop, name: str, count: int) -> None:
    """Late rows, taken into raw alone."""
    land_late(workshop, name, count, built=(RAW,))


def step(done: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in done["steps"] if each["table"] == name)


def raw(done: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in done["raw"] if each["then"]["table"] == RAW)


def arrived(done: dict[str, Any], which: str = "arrived") -> dict[str, int]:
    return {each["day"]: each["rows"] for each in raw(done)[which]}
