"""``backfill incident``: what is open, what was tried, and what a person says of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from backfill_assets.lakehouse.records import Detail
from backfill_assets.rebuild.outcome import os_person
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.incidents import Happened, IncidentBook, RepairAttempt
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.cli.terminal import terminal
from backfill_assets_tests.upkeep.incident import DAY, incident

NOW = datetime.now(UTC).replace(microsecond=0)
UNUSUAL = incident(
    id="unusual-figures-raw-sales-20170304-1",
    table="raw_sales",
    cause=Cause.UNUSUAL,
    severity="warning",
    next_step="look at the day",
    state="person",
    opened=NOW,
)
REPAIRED = incident(
    id="late-rows-bronze-sales-20170304-1",
    state="closed",
    opened=NOW - timedelta(minutes=2),
    closed=NOW,
    outcome="repaired by late_rows_1: it is built from its inputs",
    attempts=(RepairAttempt(id="late_rows_1", at=NOW, title="Repair: bronze_sales", days={}),),
    before={DAY: "6 rows"},
    after={DAY: "7 rows"},
    history=(Happened(at=NOW, words="launched late_rows_1"),),
)


@pytest.fixture
def book(backfill: Backfill) -> IncidentBook:
    found = IncidentBook(backfill.lakehouse.storage)
    found.write(UNUSUAL)
    found.write(REPAIRED)
    return found


def test_those_for_a_person_come_first_and_those_of_the_week_last(backfill: Backfill, book: IncidentBook) -> None:
    found = backfill.json("incident", "list")["incidents"]
    assert [(each["incident"], each["state"]) for each in found] == [
        (UNUSUAL.id, "for a person"),
        (REPAIRED.id, "closed"),
    ]
    assert found[0]["what"] == "look at the day" and found[1]["what"].startswith("repaired by")


def test_one_says_what_was_tried_and_what_its_days_held(backfill: Backfill, book: IncidentBook) -> None:
    found = backfill.json("incident", "show", REPAIRED.id)
    assert found["each_day"] == [{"day": str(DAY), "before": "6 rows", "after": "7 rows"}]
    assert (found["open_for"], [each["what"] for each in found["history"]]) == (120, ["launched late_rows_1"])


def test_one_says_how_much_of_what_is_affected_and_where_to_look(
    backfill: Backfill, book: IncidentBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whole addresses where it is known where the UI is."""
    page = Detail(label="page", words="it", link="/assets/it")
    facts = (Detail(label="affected", words="1 day: 7 rows; 1 row more"), page)
    book.write(UNUSUAL.model_copy(update={"facts": facts}))
    found = backfill.json("incident", "show", UNUSUAL.id)
    assert found["title"] == f"raw_sales {DAY}: unusual figures: late."
    assert (found["affected"], found["page"]) == (["1 day: 7 rows", "1 row more"], ["it"])
    monkeypatch.setenv("BACKFILL_UI", "https://dagster")
    assert backfill.json("incident", "show", UNUSUAL.id)["page"] == ["it", "https://dagster/assets/it"]


def test_a_narrow_terminal_leaves_out_nothing(backfill: Backfill, book: IncidentBook) -> None:
    """What identifies one and what is to be done are whole: a list, where the columns are too many."""
    with terminal(80):
        said = backfill("incident", "list").stdout
    for whole in (UNUSUAL.id, "raw_sales", str(DAY), "for a person", "look at the day", REPAIRED.outcome):
        assert whole in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_person_says_who_looks_after_one_and_for_how_long(backfill: Backfill, book: IncidentBook) -> None:
    """The last word counts; the sensor alone writes incidents."""
    backfill("incident", "acknowledge", UNUSUAL.id, "4h", "on it")
    (said,) = book.acknowledgements().values()
    assert said.by.startswith(str(os_person().name)) and said.reason == "on it"
    assert said.until is not None and said.until - said.at == timedelta(hours=4)
    backfill("incident", "acknowledge", UNUSUAL.id, "2d")
    assert [each.until - each.at for each in book.acknowledgements().values() if each.until] == [timedelta(days=2)]
    assert "no time" in backfill("incident", "acknowledge", UNUSUAL.id, "soon", exit_code=1).stderr
    assert "closed already" in backfill("incident", "acknowledge", REPAIRED.id, "4h").stdout
    assert [each.id for each in book.open()] == [UNUSUAL.id]


def test_an_unknown_one_is_refused_with_the_nearest(backfill: Backfill, book: IncidentBook) -> None:
    said = backfill("incident", "show", "unusual-figures-raw-sales-20170304-2", exit_code=1)
    assert UNUSUAL.id in said.stderr


def test_a_person_closes_one_once_and_the_sensor_carries_it_out(backfill: Backfill, book: IncidentBook) -> None:
    """The sensor alone writes incidents: what a person says is a document of its own."""
    backfill("incident", "close", UNUSUAL.id, "Easter")
    backfill("incident", "close", UNUSUAL.id, "again")
    (asked,) = book.closings().values()
    assert (asked.reason, asked.table, asked.cause, asked.days) == ("Easter", "raw_sales", Cause.UNUSUAL, (DAY,))
    assert [each.id for each in book.open()] == [UNUSUAL.id]
