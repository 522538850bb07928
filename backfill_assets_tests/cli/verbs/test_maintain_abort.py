"""``backfill maintain --abort`` gives up an entry that cannot be finished, and the history says who did it."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.publish.publisher import CrashPoint
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.protocol.foreign import demand_feature

DAY = date(2017, 3, 1)


@pytest.fixture
def stuck(backfill: Backfill) -> Backfill:
    """``dead`` writes two tables; one of them takes no commit any more."""
    lakehouse = backfill.lakehouse
    lakehouse.publish("first", {"bronze_sales": {DAY: [1]}, "quarantine_sales": {DAY: [10]}})
    lakehouse.crash(
        "dead", {"bronze_sales": {DAY: [2]}, "quarantine_sales": {DAY: [20]}}, at=CrashPoint.TABLE_COMMITTED
    )
    demand_feature(lakehouse.storage, "quarantine_sales", "rowTracking")
    return backfill


def ids(backfill: Backfill, table: str) -> list[int]:
    return sorted(backfill.lakehouse.newest(table).to_pyarrow_table().column("id").to_pylist())


def test_an_entry_that_cannot_be_finished_is_given_up(stuck: Backfill) -> None:
    """The plan comes first, then what could not be put back and why."""
    output = stuck("maintain", "--abort", "dead", "--yes", "--reason", "row tracking").output
    assert "giving up\tdead\nkind\treplace" in output and "Left as it is\ntable\twhy\nquarantine_sales\t" in output
    assert "RowTracking" in output
    assert ids(stuck, "bronze_sales") == [1]
    newest = stuck.json("history")["publications"][0]
    assert newest["outcome"] == "aborted" and ": row tracking" in newest["reason"]


def test_without_a_terminal_it_wants_yes(stuck: Backfill) -> None:
    """A script must say that it means it."""
    assert "add --yes" in stuck("maintain", "--abort", "dead", exit_code=2).stderr
    assert stuck.json("history")["publications"][0]["outcome"] == "open"


def test_only_open_publications_are_given_up(stuck: Backfill) -> None:
    """A mistyped name gets the nearest one, what is done the command that puts it back."""
    assert "Did you mean dead?" in stuck("maintain", "--abort", "deda", "--yes", exit_code=1).stderr
    assert "backfill rollback first" in stuck("maintain", "--abort", "first", exit_code=1).stderr, "before it asks"


def test_what_is_aborted_already_is_not_to_be_rolled_back(stuck: Backfill) -> None:
    """`backfill rollback` would refuse it: there is nothing to put back."""
    stuck("maintain", "--abort", "dead", "--yes")
    again = stuck("maintain", "--abort", "dead", "--yes", exit_code=1).stderr
    assert "dead is not open: it is aborted" in again and "rollback" not in again and "nothing is left to do" in again
