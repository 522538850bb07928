"""``backfill raw positions``, and what history and plans say of a stream's positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.examples.catalog import CATALOG
from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.streamed_lakehouse import BRONZE, FACT, RAW, StreamedLakehouse

pytestmark = pytest.mark.protocol
FIRST, SECOND = date(2017, 3, 1), date(2017, 3, 2)


@built_once
def begun(backfill: Backfill) -> None:
    """Bronze of two days was computed up to offset 1,010; raw has read on since."""
    found = StreamedLakehouse(backfill.home / "lakehouse")
    found.begin({0: 1_000}, FIRST)
    found.land("landed", {FIRST: [1]}, "sales/2017-03-01/a.jsonl.gz")
    found.stream("history", {FIRST: [2], SECOND: [3]}, {0: (0, 1_010)})
    found.build_bronze("bronze", {FIRST: [1, 2], SECOND: [3]})
    found.stream("batch", {SECOND: [4]}, {0: (1_010, 1_020), 1: (0, 7)})


@pytest.fixture
def streamed(begun: Backfill) -> Iterator[StreamedLakehouse]:
    found = StreamedLakehouse(begun.home / "lakehouse")
    found.minutes = 60
    with clock.use(found.time):
        yield found


def test_positions_of_raw_and_of_what_is_computed_from_it(backfill: Backfill, streamed: StreamedLakehouse) -> None:
    """Raw has read further than bronze."""
    raw = backfill.json("raw", "positions", RAW)
    assert [each["next_offset"] for each in raw["partitions"]] == [1_020, 7]
    assert (raw["landed_files"], raw["newest_arrival"]) == (1, str(FIRST))
    found = backfill.json("raw", "positions", BRONZE)
    assert found["table"] == BRONZE
    (boundary,) = found["boundaries"]
    assert boundary["days"] == [f"{FIRST}..{SECOND}"] and boundary["landed_files"] == 1
    assert boundary["computed_from"] == RAW and boundary["newest_arrival"] == str(FIRST)
    assert boundary["positions"] == [{"topic": "orders", "partition": 0, "next_offset": 1_010, "live_since": 1_000}]
    streamed.build_fact("fact", {FIRST: [1, 2]})
    (of_fact,) = backfill.json("raw", "positions", FACT)["boundaries"]
    assert of_fact["positions"] == boundary["positions"]


def test_any_published_state_can_be_asked_for(backfill: Backfill, streamed: StreamedLakehouse) -> None:
    """By publication, by version and by moment; what was never published is an error, with what there is instead."""
    then = backfill.json("raw", "positions", RAW, "history")
    assert then["partitions"] == [{"topic": "orders", "partition": 0, "next_offset": 1_010, "live_since": 1_000}]
    # The clock of the log moves on a minute with each publication: 12:03 is that of the history.
    for at in (then["version"], "2017-06-01T12:03:30", "2017-06-01T14:03:30+02:00"):
        assert backfill.json("raw", "positions", RAW, at) == then
    computed = backfill.json("raw", "positions", BRONZE, "bronze")
    assert computed["boundaries"][0]["positions"][0]["next_offset"] == 1_010
    for arguments, message in REFUSED:
        assert message in backfill("raw", "positions", *arguments, exit_code=1).stderr


REFUSED: Sequence[tuple[tuple[str, ...], str]] = [
    (("raw_sale",), "Did you mean raw_sales?"),
    ((RAW, "histor"), "Did you mean history?"),
    ((RAW, "99"), "raw_sales has no version 99: its newest version is"),
    ((RAW, "2017-01-01"), "Nothing was published by 2017-01-01 00:00:00 UTC."),
    ((RAW, "yesterday"), "There is no publication 'yesterday'"),
    ((RAW, "0001-01-01T00:00:00+14:00"), "There is no publication '0001-01-01T00:00:00+14:00'"),
    ((FACT,), "Nothing was published to fact_sales_transactions"),
    ((BRONZE, "history"), "Nothing was published to bronze_sales by entry"),
]


def test_history_has_the_offsets_and_the_boundary(backfill: Backfill, streamed: StreamedLakehouse) -> None:
    """Of a micro-batch what it read, of a rollback what it gave back, of computed days up to where."""
    roll_back(streamed.publisher, "batch", id="back", steps=CATALOG.steps)
    back, batch, bronze, quarantine, *_ = backfill.json("history")["publications"]
    assert batch["offsets"][0] == {
        "source": "sales",
        "topic": "orders",
        "partition": 0,
        "from": 1_010,
        "to": 1_020,
    }
    assert [(each["from"], each["to"]) for each in back["offsets"]] == [(1_020, 1_010), (7, 0)]
    (boundary,) = bronze["read_up_to"]
    assert boundary["tables"] == [BRONZE, "quarantine_sales"] and boundary["positions"][0]["next_offset"] == 1_010
    assert quarantine["read_up_to"] == [boundary] and quarantine["publication"] == bronze["publication"]
    assert batch["read_up_to"] == back["read_up_to"] == [] and bronze["offsets"] == []


def test_a_plan_has_the_boundary_that_it_was_made_from(backfill: Backfill, streamed: StreamedLakehouse) -> None:
    """Rebuilding bronze reads raw as it is now; rebuilding fact reads bronze as it was computed. It is kept."""
    plan = backfill.json("plan", BRONZE, "--days", f"{FIRST}..{SECOND}", "--force", exit_code=1)
    boundaries = plan["boundaries"]
    assert {(*each["table"], *each["days"]) for each in boundaries} == {(RAW, f"{FIRST}..{SECOND}")}
    assert [each["next_offset"] for each in boundaries] == [1_020, 7]
    streamed.stream("later", {SECOND: [5]}, {0: (1_020, 1_030)})
    assert backfill.json("plan", plan["plan"], exit_code=1)["boundaries"] == boundaries
    fact = backfill.json("plan", FACT, "--days", f"{FIRST}..{SECOND}", exit_code=1)
    assert {(*each["table"], each["next_offset"]) for each in fact["boundaries"]} >= {(BRONZE, 1_010)}
