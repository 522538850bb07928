"""``backfill show``: one day as it is, or as it was."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path

from backfill_assets.answers.day import FoundDay, day_answer
from backfill_assets.cli.output import say_json
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.report.answer import Fact
from backfill_assets_tests.cli.command import Backfill

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
TABLE = "fact_daily_revenue"


def test_rows_and_what_the_log_knows(backfill: Backfill) -> None:
    """For scripts, everything; other days' rows are not in it."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1, 2, 3], NEXT: [9]}}, code="v0")
    told = backfill.json("show", TABLE, DAY)
    assert (told["status"], told["publication"], told["table_version"]) == ("stale: version not declared", "first", 1)
    assert (told["rows"], told["checksum"], told["code"]) == (3, "6", "v0")
    assert told["metrics"] == {"rows": 3} and [file["rows"] for file in told["files"]] == [3]
    assert told["sample"] == [{"id": number, "day": str(DAY)} for number in (1, 2, 3)]


def test_a_past_publication_is_shown_as_it_was_and_half_a_one_not_at_all(backfill: Backfill) -> None:
    """State and rows of then; there is no status of the past. Pinned like every consistent reader."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1]}})
    backfill.lakehouse.publish("second", {TABLE: {DAY: [2]}})
    then = backfill.json("show", TABLE, DAY, "--at", "first")
    assert (then["publication"], then["sample"][0]["id"], then["status"]) == ("first", 1, "")
    assert "Did you mean first?" in backfill("show", TABLE, DAY, "--at", "frst", exit_code=1).stderr
    files = backfill.json("show", TABLE, DAY)["files"]
    backfill.lakehouse.crash("third", {TABLE: {DAY: [3]}}, at=CrashPoint.TABLE_COMMITTED)
    now = backfill.json("show", TABLE, DAY)
    assert (now["table_version"], now["publication"]) == (2, "second")
    assert now["sample"] == [{"id": 2, "day": str(DAY)}] and now["files"] == files


def test_a_day_or_table_without_anything_is_an_answer_and_wrong_words_get_one(backfill: Backfill) -> None:
    """Missing is an answer; a typo gets the nearest."""
    assert backfill.json("show", TABLE, DAY)["status"] == "missing"
    backfill.lakehouse.publish("first", {TABLE: {NEXT: [1]}})
    told = backfill.json("show", TABLE, DAY)
    assert (told["status"], told["publication"], told["files"], told["sample"]) == ("missing", "", [], [])
    assert "'2017-3-1' is not a day" in backfill("show", TABLE, "2017-3-1", exit_code=1).stderr
    assert "Did you mean bronze_sales?" in backfill("show", "bronze_sale", DAY, exit_code=1).stderr
    backfill("show", TABLE, exit_code=2)


def test_a_day_that_is_not_there_says_what_to_do(backfill: Backfill) -> None:
    """Now, then, and on a timeline; of a week its first day is named."""
    upstream = f"-> backfill run +{TABLE} --days {DAY}"
    assert f"It was never published.\n  {upstream}\n" in backfill("show", TABLE, DAY).stdout
    assert f"-> backfill run raw_sales --days {DAY}\n" in backfill("show", "raw_sales", DAY).stdout
    backfill.lakehouse.publish("first", {TABLE: {NEXT: [1]}})
    said = f"It was never published. It has days from {NEXT} to {NEXT}.\n  {upstream}\n"
    assert said in backfill("show", TABLE, DAY).stdout
    assert "It was not published by then." in backfill("show", TABLE, DAY, "--at", "first").stdout
    backfill("timeline", "create", "trial")
    assert f"-> backfill run {TABLE} --days {DAY} --on trial\n" in backfill("show", TABLE, DAY, "--on", "trial").stdout
    assert "-> backfill show report_store_ranking 2017-02-27\n" in backfill("show", "report_store_ranking", DAY).stdout
    assert "backfill run" not in backfill("show", TABLE, NEXT).stdout


def test_a_person_gets_the_sums_and_asks_for_the_rest() -> None:
    """Twenty lines of metrics are not read; a script has them all."""
    metrics: dict[str, int | str | None] = {"keys": 1, "quality.validity.rules": 1, "total_revenue_eur": "1.50"}
    content = DayContent(rows=1, checksum="6", code_version="v1", metrics=metrics)
    answer = day_answer(FoundDay(TABLE, DAY, "fresh", publication="first", content=content))
    assert answer.brief is not None
    short = {part.name: part.value for part in answer.brief.parts if isinstance(part, Fact)}
    assert short["totals"] == {"revenue_eur": "1.50"} and short.keys().isdisjoint({"metrics", "checksum"})
    whole = {part.name: part.value for part in answer.parts if isinstance(part, Fact)}
    assert whole["metrics"] == metrics and "totals" not in whole


def test_json_rounds_nothing() -> None:
    """Amounts are decimals and stay so, as text."""
    with redirect_stdout(StringIO()) as printed:
        say_json([Decimal("0.1000"), date(2017, 3, 1), datetime(2017, 3, 1, 11, tzinfo=UTC)])
    assert json.loads(printed.getvalue()) == ["0.1000", "2017-03-01", "2017-03-01T11:00:00+00:00"]


def _file_of(backfill: Backfill, day: date, table: str = TABLE) -> Path:
    (file,) = backfill.json("show", table, day)["files"]
    return backfill.home / "lakehouse" / table / str(file["path"])


def test_a_day_whose_file_is_gone_is_damaged_and_says_how_it_is_repaired(backfill: Backfill) -> None:
    """No traceback; from then on the status says so, until the file is back or the day is published again."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1], NEXT: [2]}})
    file = _file_of(backfill, DAY)
    away = file.rename(file.with_suffix(".away"))
    assert "files lost" not in backfill.statuses(TABLE)[TABLE], "no log shows it"
    said = backfill("show", TABLE, DAY).output
    assert "status\tfiles lost" in said and "Damaged: 1 of the day's 1 file is gone" in said and file.name in said
    assert f"backfill run {TABLE} --days {DAY} --force" in said
    found = backfill.json("show", TABLE, DAY)
    assert found["status"] == "files lost" and found["sample"] == [] and found["damaged_files"][0].endswith(file.name)
    assert backfill.statuses(TABLE)[TABLE]["files lost"] == [str(DAY)]
    status = backfill.status_by_day(TABLE)
    assert status[str(DAY)] == "files lost" and status[str(NEXT)] != "files lost"
    assert f"{TABLE} {DAY} is damaged" in backfill("status").output
    assert "Damaged: 1 of the day's 1 file is gone" in backfill("show", TABLE, DAY, "--at", "first").output
    away.rename(file)
    assert "files lost" not in backfill.statuses(TABLE)[TABLE]
    file.unlink()
    backfill("show", TABLE, DAY)
    backfill.lakehouse.publish("second", {TABLE: {DAY: [1]}})
    assert "files lost" not in backfill.statuses(TABLE)[TABLE], "it is whole again"
    assert backfill.json("show", TABLE, DAY)["sample"] == [{"id": 1, "day": str(DAY)}]


def test_files_of_an_earlier_publication_that_maintenance_deleted_are_no_damage(backfill: Backfill) -> None:
    """The day is whole as it is now: to compute it again would be wrong advice."""
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1]}})
    file = _file_of(backfill, DAY)
    backfill.lakehouse.publish("second", {TABLE: {DAY: [2]}})
    file.unlink()
    said = backfill("show", TABLE, DAY, "--at", "first").output
    assert "amaged" not in said and "--force" not in said and "no reader" not in said
    assert file.name in said and f"backfill show {TABLE} {DAY}\n" in said
    found = backfill.json("show", TABLE, DAY, "--at", "first")
    assert "damaged_files" not in found and found["reclaimed_files"][0].endswith(file.name) and found["sample"] == []
    assert backfill.json("show", TABLE, DAY)["sample"] == [{"id": 2, "day": str(DAY)}]


def test_damage_of_raw_is_not_said_to_be_rebuilt(backfill: Backfill) -> None:
    """Each landed file counts once."""
    backfill.lakehouse.publish("first", {"raw_sales": {DAY: [1]}})
    _file_of(backfill, DAY, "raw_sales").unlink()
    said = backfill("show", "raw_sales", DAY).output
    assert "-> backfill raw restore raw_sales" in said and "--force" not in said


def test_a_foreign_write_says_that_the_kept_numbers_are_older_and_what_the_day_holds_now(backfill: Backfill) -> None:
    backfill.lakehouse.publish("first", {TABLE: {DAY: [1, 2]}})
    backfill.lakehouse.write_past_the_protocol(TABLE, DAY, [7, 8, 9])
    found = backfill.json("show", TABLE, DAY)
    assert found["status"] == "foreign write" and found["rows"] == 2
    assert found["written_since"] == {"version": 2, "rows": 5, "files": 2}
    said = backfill("show", TABLE, DAY).output
    assert "Foreign write: another writer changed this day" in said and "It holds 5 rows in 2 files now" in said
    assert "are older" in said and f"backfill run {TABLE} --days {DAY}" in said
