"""The first day of a dataset is declared too late, and then right: rows that landed before go where they belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest

from backfill_assets.days import DayRange
from backfill_assets.publish.publisher import Pin
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.raw_change import StagedChange
from backfill_assets.rebuild.refresh import RefreshBuild, RefreshResult
from backfill_assets.rebuild.reproduce import ReproductionVerdict
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.personal_key import VISITS, visit
from backfill_assets_tests.stories.staged_campaign import checksums
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

ARRIVED = DayRange.parse("2010-05-19..2010-05-21")
FIRST, SECOND, THIRD = ARRIVED
TOO_LATE, RIGHT = FIRST, date(2010, 5, 10)
EARLY, MOVED, TOO_EARLY = date(2010, 5, 12), date(2010, 5, 13), date(2010, 5, 8)
STALE, FRESH = "stale: code changed", "fresh"


def declare_from(monkeypatch: pytest.MonkeyPatch, first_day: date) -> None:
    declare(monkeypatch, replace(VISITS, first_day=first_day))


def land_visits(workshop: Workshop) -> None:
    """Visit 1 was on an early day, and moves to the next; visit 3 is earlier than any first day declared here."""
    landing = workshop.settings.landing
    land(landing, "visits", str(FIRST), "a", [visit("1", EARLY, "100"), visit("2", FIRST, "110")])
    moved = visit("1", MOVED, "101", sent=SECOND)
    land(landing, "visits", str(SECOND), "b", [moved, visit("3", TOO_EARLY, "120"), visit("4", SECOND, "130")])
    land(landing, "visits", str(THIRD), "c", [visit("5", THIRD, "140")])


def received(workshop: Workshop) -> dict[tuple[str, int], tuple[date, bool, int]]:
    """The day of every landed line, whether that is only the one on which it arrived, and its content hash.

    Raw keeps a row that was deleted, beside the deletion that cancels it.
    """
    raw = workshop.read("raw_visits")
    rows: Counter[tuple[tuple[str, int], tuple[date, bool, int]]] = Counter()
    for row in raw[raw["source_file"].notna()].to_dict("records"):
        line = row["source_file"].rpartition("/")[2][0], row["source_line"]
        placed = row["day"], row["day_is_arrival"], row["content_hash"]
        rows[line, placed] += -1 if row["record_kind"] == "deletion" else 1
    assert set(rows.values()) <= {0, 1}
    standing = [row for row, count in rows.items() if count]
    assert len(dict(standing)) == len(standing) == 6, "each line once"
    return dict(standing)


def markers(workshop: Workshop) -> list[tuple[date, date]]:
    raw = workshop.read("raw_visits")
    found: Counter[tuple[date, date]] = Counter()
    for row in raw[raw["superseded_by_day"].notna()].to_dict("records"):
        found[row["day"], row["superseded_by_day"]] += -1 if row["record_kind"] == "deletion" else 1
    return sorted(found.elements())


def refresh(workshop: Workshop, days: Sequence[date] | DayRange) -> RefreshResult:
    step = declared().step("raw_visits")
    return workshop.builder.refresh(step, list(days), run=RunInfo("refresh"), progress=workshop.messages.append)


def statuses(backfill: Backfill, table: str) -> dict[date, str]:
    days = backfill.status_by_day(table, "--days", DayRange(EARLY, THIRD))
    return {date.fromisoformat(day): status for day, status in days.items() if status != "missing"}


def accounted(workshop: Workshop) -> tuple[int, int]:
    """Count and sum of content hashes of all that was received and not taken back, as the log has it."""
    contents = [state.content for state in workshop.states("raw_visits").values() if state.content]

    def total(name: str) -> int:
        return sum(int(str(content.metrics.get(name) or 0)) for content in contents)

    return total("received") - total("deleted"), total("content_hash_sum") - total("deleted_hash_sum")


def test_rows_go_where_they_belong_once_the_first_day_is_corrected(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landed files count once and stay as they are: a refresh moves what raw has of them to other days, and back."""
    backfill = Backfill(workshop.settings.home, monkeypatch)
    declare_from(monkeypatch, TOO_LATE)
    land_visits(workshop)
    (taken_in,) = workshop.build("raw_visits", ARRIVED).publications
    workshop.build("bronze_visits", ARRIVED)
    before, sums, held = received(workshop), accounted(workshop), checksums(workshop, "raw_visits")
    assert {line for line, (_, is_arrival, _) in before.items() if is_arrival} == {("a", 1), ("b", 1), ("b", 2)}
    told = next(message for message in workshop.messages if "on the day of arrival" in message)
    assert "3 rows" in told and f"{EARLY} is before {TOO_LATE}, first_day of its dataset" in told
    assert "earliest_day of the source visits" in told
    listed = " ".join(backfill("raw", "quarantine", "quarantine_visits").stdout.split())
    assert f"is before {TOO_LATE}, first_day of its dataset" in listed
    assert statuses(backfill, "raw_visits") == dict.fromkeys(ARRIVED, FRESH)

    declare_from(monkeypatch, RIGHT)
    assert statuses(backfill, "raw_visits") == {FIRST: STALE, SECOND: STALE, THIRD: FRESH}
    assert all(day.reused for day in workshop.build("raw_visits", ARRIVED).days), "a run leaves rows where they are"
    assert workshop.messages[-1].endswith(f"backfill raw refresh raw_visits {FIRST}..{SECOND}")
    done = refresh(workshop, ARRIVED)
    assert done.rows == {EARLY: (1, 0), MOVED: (1, 0), FIRST: (0, 1), SECOND: (0, 1)}
    moved = {("a", 1): (EARLY, False, before["a", 1][2]), ("b", 1): (MOVED, False, before["b", 1][2])}
    assert received(workshop) == {**before, **moved}
    assert markers(workshop) == [(EARLY, MOVED)], "visit 1 has a newer version on another day now"
    assert accounted(workshop) == sums
    assert statuses(backfill, "raw_visits") == dict.fromkeys((EARLY, MOVED, *ARRIVED), FRESH)
    after = received(workshop)
    backfill("rollback", done.publication, "--yes")
    assert received(workshop) == before and markers(workshop) == [] and checksums(workshop, "raw_visits") == held
    assert statuses(backfill, "raw_visits") == {FIRST: STALE, SECOND: STALE, THIRD: FRESH}, "to be moved again"
    assert (again := refresh(workshop, ARRIVED)).rows == done.rows and received(workshop) == after
    sessions = workshop.sessions
    assert not refresh(workshop, ARRIVED).publication and workshop.sessions == sessions
    reproduced = workshop.builder.reproduce(taken_in).days
    assert {day.verdict for day in reproduced} == {ReproductionVerdict.EQUAL}, "taken in again as it was declared then"
    assert all("read its source again" in day.reason for day in workshop.builder.reproduce(again.publication).days)

    assert statuses(backfill, "bronze_visits")[FIRST] == "stale: rows corrected"
    workshop.build("bronze_visits", [EARLY, MOVED, *ARRIVED])
    winners = workshop.read("bronze_visits", columns=["visit", "day"]).sort_values("day").to_dict("records")
    days = [(row["visit"], row["day"]) for row in winners]
    assert days == [("1", EARLY), ("1", MOVED), ("2", FIRST), ("4", SECOND), ("5", THIRD)]
    assert workshop.read("quarantine_visits")["visit"].tolist() == ["3"]

    declare_from(monkeypatch, TOO_LATE)
    assert {day for day, status in statuses(backfill, "raw_visits").items() if status == STALE} == {EARLY, MOVED}
    refresh(workshop, [EARLY, MOVED])
    assert received(workshop) == before and markers(workshop) == [] and accounted(workshop) == sums
    assert set(statuses(backfill, "raw_visits").values()) == {FRESH}


def test_a_file_that_changed_and_rows_that_belong_elsewhere_are_one_publication(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of the changed file goes where the file has it now; rows of other files on the stale days move."""
    declare_from(monkeypatch, TOO_LATE)
    land_visits(workshop)
    workshop.build("raw_visits", ARRIVED)
    declare_from(monkeypatch, RIGHT)
    landing = workshop.settings.landing
    land(landing, "visits", str(FIRST), "a", [visit("1", EARLY, "100"), visit("2", FIRST, "111")])
    done = refresh(workshop, ARRIVED)
    assert done.rows == {EARLY: (1, 0), MOVED: (1, 0), FIRST: (1, 2), SECOND: (0, 1)}
    where = {line: day for line, (day, _, _) in received(workshop).items()}
    assert (where["a", 1], where["a", 2], where["b", 1]) == (EARLY, FIRST, MOVED)
    assert markers(workshop) == [(EARLY, MOVED)]
    assert not refresh(workshop, ARRIVED).publication


def test_a_day_that_is_published_for_the_first_time_meanwhile_is_looked_at(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older version lands on a day that had none while the newer one is put on its own: it counts once."""
    declare_from(monkeypatch, TOO_LATE)
    landing = workshop.settings.landing
    land(landing, "visits", str(FIRST), "a", [visit("1", MOVED, "101", sent=SECOND)])
    workshop.build("raw_visits", [FIRST])
    declare_from(monkeypatch, RIGHT)
    land(landing, "visits", str(SECOND), "b", [visit("1", EARLY, "100")])
    pin, pins = RefreshBuild.pin, list[Pin]()

    def pinned(build: RefreshBuild, staged: StagedChange) -> Pin:
        pins.append(pin(build, staged))
        if len(pins) == 1:
            workshop.build("raw_visits", [SECOND])
        return pins[-1]

    monkeypatch.setattr(RefreshBuild, "pin", pinned)
    refresh(workshop, [FIRST])
    assert len(pins) == 2, "looked again"
    assert markers(workshop) == [(EARLY, MOVED)]
