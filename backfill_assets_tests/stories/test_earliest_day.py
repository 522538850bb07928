"""The first day of a dataset is declared too late, and then right: rows that landed before go where they belong."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.datasets import registry
from backfill_assets.days import DayRange
from backfill_assets.publication.pin import Pin
from backfill_assets.rebuild.relocate import Relocation
from backfill_assets.rebuild.reproduction.reproduce import ReproductionVerdict
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.personal_key import VISITS, visit
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

ARRIVED = DayRange.parse("2010-05-19..2010-05-21")
FIRST, SECOND, THIRD = ARRIVED
TOO_LATE, RIGHT = FIRST, date(2010, 5, 10)
EARLY, MOVED, TOO_EARLY = date(2010, 5, 12), date(2010, 5, 13), date(2010, 5, 8)
ALL = DayRange(EARLY, THIRD)
STALE, FRESH = "stale: code changed", "fresh"


def declare(monkeypatch: pytest.MonkeyPatch, first_day: date) -> None:
    others = tuple(dataset for dataset in registry.datasets() if dataset.name != VISITS.name)
    monkeypatch.setattr(registry, "_DATASETS", (*others, replace(VISITS, first_day=first_day)))


def land_visits(workshop: Workshop) -> None:
    """Visit 1 was on an early day, and moves to the next; visit 3 is earlier than any first day declared here."""
    landing = workshop.settings.landing
    land(landing, "visits", str(FIRST), "a", [visit("1", EARLY, "100"), visit("2", FIRST, "110")])
    moved = visit("1", MOVED, "101", sent=SECOND)
    land(landing, "visits", str(SECOND), "b", [moved, visit("3", TOO_EARLY, "120"), visit("4", SECOND, "130")])
    land(landing, "visits", str(THIRD), "c", [visit("5", THIRD, "140")])


def received(workshop: Workshop) -> dict[tuple[str, int], tuple[date, bool, int]]:
    """The day of every landed line, whether that is only the one on which it arrived, and its content hash."""
    raw = workshop.read("raw_visits")
    rows = raw[raw["record_kind"] == "received"].to_dict("records")
    found = {
        (row["source_file"].rpartition("/")[2][0], row["source_line"]): (
            row["day"],
            row["day_is_arrival"],
            row["content_hash"],
        )
        for row in rows
    }
    assert len(found) == len(rows) == 6, "each line once"
    return found


def markers(workshop: Workshop) -> list[tuple[date, date]]:
    raw = workshop.read("raw_visits")
    rows = raw[raw["record_kind"] == "supersession"].to_dict("records")
    return [(row["day"], row["superseded_by_day"]) for row in rows]


def statuses(backfill: Backfill, table: str) -> dict[date, str]:
    days = backfill.status_by_day(table, "--days", ALL)
    return {date.fromisoformat(day): status for day, status in days.items() if status != "missing"}


def accounted(workshop: Workshop) -> tuple[int, int]:
    """Count and sum of content hashes of all that was received, as the log has it."""
    contents = [state.content for state in workshop.states("raw_visits").values() if state.content]
    counts, hashes = (
        [int(str(content.metrics[name])) for content in contents] for name in ("received", "content_hash_sum")
    )
    return sum(counts), sum(hashes)


def test_rows_go_where_they_belong_once_the_first_day_is_corrected(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landed files count once and stay as they are: what raw has of them is put on other days, and back again."""
    backfill = Backfill(workshop.settings.home, monkeypatch)
    declare(monkeypatch, TOO_LATE)
    land_visits(workshop)
    (taken_in,) = workshop.build("raw_visits", ARRIVED).publications
    workshop.build("bronze_visits", ARRIVED)
    before, sums = received(workshop), accounted(workshop)
    assert {line for line, (_, is_arrival, _) in before.items() if is_arrival} == {("a", 1), ("b", 1), ("b", 2)}
    told = next(message for message in workshop.messages if "on the day of arrival" in message)
    assert "3 rows" in told and f"{EARLY} is before {TOO_LATE}, `first_day` of its dataset" in told
    assert "`earliest_day` of the source visits" in told
    listed = " ".join(backfill("quarantine", "list", "quarantine_visits").stdout.split())
    assert f"is before {TOO_LATE}, `first_day` of its dataset" in listed
    assert statuses(backfill, "raw_visits") == dict.fromkeys(ARRIVED, FRESH)

    declare(monkeypatch, RIGHT)
    assert statuses(backfill, "raw_visits") == {FIRST: STALE, SECOND: STALE, THIRD: FRESH}
    told = " ".join(backfill("run", "raw_visits", "--days", ARRIVED, "--dry-run").stdout.split())
    assert f"puts rows of {FIRST}..{SECOND} on the days where they belong" in told
    result = workshop.build("raw_visits", ARRIVED)
    assert [day.reused for day in result.days] == [False, False, True]
    assert result.appended_elsewhere == {"raw_visits": (EARLY, MOVED)}
    moved = {("a", 1): (EARLY, False, before["a", 1][2]), ("b", 1): (MOVED, False, before["b", 1][2])}
    assert received(workshop) == {**before, **moved}
    assert markers(workshop) == [(EARLY, MOVED)], "visit 1 has a newer version on another day now"
    assert accounted(workshop) == sums
    assert statuses(backfill, "raw_visits") == dict.fromkeys((EARLY, MOVED, *ARRIVED), FRESH)
    again = workshop.build("raw_visits", ARRIVED)
    assert all(day.reused for day in again.days) and not again.publications
    reproduced = workshop.builder.reproduce(taken_in).days
    assert {day.verdict for day in reproduced} == {ReproductionVerdict.EQUAL}, "taken in again as it was declared then"
    (moved_by,) = result.publications
    assert all("put on other days" in day.reason for day in workshop.builder.reproduce(moved_by).days)

    assert statuses(backfill, "bronze_visits")[FIRST] == "stale: input changed"
    workshop.build("bronze_visits", [EARLY, MOVED, *ARRIVED])
    winners = workshop.read("bronze_visits", columns=["visit", "day"]).sort_values("day").to_dict("records")
    days = [(row["visit"], row["day"]) for row in winners]
    assert days == [("1", EARLY), ("1", MOVED), ("2", FIRST), ("4", SECOND), ("5", THIRD)]
    assert workshop.read("quarantine_visits")["visit"].tolist() == ["3"]

    declare(monkeypatch, TOO_LATE)
    assert {day for day, status in statuses(backfill, "raw_visits").items() if status == STALE} == {EARLY, MOVED}
    workshop.build("raw_visits", [EARLY, MOVED])
    assert received(workshop) == before and markers(workshop) == [] and accounted(workshop) == sums
    assert set(statuses(backfill, "raw_visits").values()) == {FRESH}


def test_a_day_that_is_published_for_the_first_time_meanwhile_is_looked_at(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version lands on a day that had none while the newer one is put on its own: it counts once."""
    declare(monkeypatch, TOO_LATE)
    landing = workshop.settings.landing
    land(landing, "visits", str(FIRST), "a", [visit("1", MOVED, "101", sent=SECOND)])
    workshop.build("raw_visits", [FIRST])
    declare(monkeypatch, RIGHT)
    land(landing, "visits", str(SECOND), "b", [visit("1", EARLY, "100")])
    pin, pins = Relocation.pin, list[Pin]()

    def pinned(relocation: Relocation) -> Pin:
        pins.append(pin(relocation))
        if len(pins) == 1:
            workshop.build("raw_visits", [SECOND])
        return pins[-1]

    monkeypatch.setattr(Relocation, "pin", pinned)
    workshop.build("raw_visits", [FIRST])
    assert len(pins) == 2, "looked again"
    assert markers(workshop) == [(EARLY, MOVED)]
