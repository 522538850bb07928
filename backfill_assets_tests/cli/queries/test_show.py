"""``backfill show``: one day as it is, or as it was."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO

from backfill_assets.cli.output import say_json
from backfill_assets.cli.queries.show import say_rows
from backfill_assets.publication.publisher import CrashPoint
from backfill_assets_tests.cli.command import Backfill

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
TABLE = "fact_daily_revenue"


def test_rows_and_what_the_log_knows(backfill: Backfill) -> None:
    """For scripts, everything; other days' rows are not in it."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1, 2, 3], NEXT: [9]}}, code="v0")
    told = backfill.json("show", TABLE, "--day", DAY, "--limit", 2)
    assert (told["status"], told["publication"], told["table_version"]) == ("stale: code changed", "first", 1)
    assert (told["rows"], told["checksum"], told["code_version"]) == (3, "6", "v0")
    assert told["metrics"] == {"rows": 3} and [file["rows"] for file in told["files"]] == [3]
    assert told["sample"] == [{"id": 1, "day": str(DAY)}, {"id": 2, "day": str(DAY)}]


def test_people_see_a_table(backfill: Backfill) -> None:
    """State first, rows below."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [11, 12]}})
    output = backfill("show", TABLE, "--day", DAY).output
    for expected in ("publication", "first", "_timelines/run-first/day=2017-03-01", "\n11\t", "\n12\t"):
        assert expected in output


def test_a_past_publication_is_shown_as_it_was(backfill: Backfill) -> None:
    """State and rows of then; there is no status of the past."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1]}})
    backfill.lakehouse.publish("second", {TABLE: {DAY: [2]}})
    then = backfill.json("show", TABLE, "--day", DAY, "--publication", "first")
    assert (then["publication"], then["sample"][0]["id"], then["status"]) == ("first", 1, None)
    assert "Did you mean first?" in backfill("show", TABLE, "--day", DAY, "--publication", "frst", exit_code=1).stderr


def test_half_a_publication_is_not_shown(backfill: Backfill) -> None:
    """Pinned like every consistent reader."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1]}})
    backfill.lakehouse.crash("second", {TABLE: {DAY: [2]}}, at=CrashPoint.TABLE_COMMITTED)
    assert backfill.json("show", TABLE, "--day", DAY)["sample"] == [{"id": 1, "day": str(DAY)}]


def test_a_day_or_table_without_anything_is_no_error(backfill: Backfill) -> None:
    """Missing is an answer."""
    assert backfill.json("show", TABLE, "--day", DAY)["status"] == "missing"
    backfill.lakehouse.publish("first", {TABLE: {NEXT: [1]}})
    told = backfill.json("show", TABLE, "--day", DAY)
    assert (told["status"], told["publication"], told["files"], told["sample"]) == ("missing", None, [], [])
    assert "No rows." in backfill("show", TABLE, "--day", DAY).output


def test_wrong_words_get_an_answer(backfill: Backfill) -> None:
    """Day, table, and what is required."""
    assert "'2017-3-1' is not a day" in backfill("show", TABLE, "--day", "2017-3-1", exit_code=1).stderr
    assert "Did you mean bronze_sales?" in backfill("show", "bronze_sale", "--day", DAY, exit_code=1).stderr
    backfill("show", TABLE, exit_code=2)


def test_rows_too_wide_for_the_screen_are_shown_one_by_one(backfill: Backfill) -> None:
    """Twenty columns squeezed into eighty characters cannot be read."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1]}})
    assert "row 1" not in backfill("show", TABLE, "--day", DAY).output
    wide = {f"column_{n}": "x" * 30 for n in range(9)}
    with redirect_stdout(_Screen()) as printed:
        say_rows([wide, wide])
    assert "row 2" in printed.getvalue() and "column_8" in printed.getvalue()
    with redirect_stdout(StringIO()) as piped:
        say_rows([wide, wide])
    assert piped.getvalue().splitlines()[0].split("\t") == list(wide)


class _Screen(StringIO):
    def isatty(self) -> bool:
        return True


def test_json_rounds_nothing() -> None:
    """Amounts are decimals and stay so, as text."""
    with redirect_stdout(StringIO()) as printed:
        say_json([Decimal("0.1000"), date(2017, 3, 1), datetime(2017, 3, 1, 11, tzinfo=UTC)])
    assert json.loads(printed.getvalue()) == ["0.1000", "2017-03-01", "2017-03-01T11:00:00+00:00"]
