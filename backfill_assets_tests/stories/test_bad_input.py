"""What sources and people do wrong: a clear error, or a quarantine reason with file and line, and nothing half done.

After each mistake the lakehouse stands as before, and the next run works as if nothing had happened.
"""

from __future__ import annotations

import gzip
import threading
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, InvalidRequest, LakehouseUnusable, SourceUnreadable
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.rebuild.outcome import BuildResult
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = date(2017, 3, 1)
DAYS = DayRange.of(DAY)


def rate(**changes: str) -> dict[str, str]:
    row = {"currency": "USD", "rate_day": "2017-03-01", "rate": "1.0533", "updated_at": "2017-03-01T15:00:00Z"}
    return row | changes


def land_rates(workshop: Workshop, name: str = "rates") -> Path:
    rows = [rate(), rate(currency="GBP", rate="0.8563")]
    return Path(land(workshop.settings.landing, "fx_rates", "2017-03-01", name, rows))


def land_sales(workshop: Workshop, *lines: str | dict[str, str | None], name: str = "sales") -> Path:
    return Path(land(workshop.settings.landing, "sales", "2017-03-01", name, lines))


def standing(workshop: Workshop) -> object:
    """What the publication log and the tables themselves say is published."""
    found = workshop.contents()
    tables = {table: MainTable.open(workshop.builder.lake.storage, table) for table in found}
    return found, {table: main.version for table, main in tables.items() if main}


def refused(
    workshop: Workshop,
    table: str,
    error: type[BackfillError],
    *named: str,
    days: DayRange = DAYS,
    version: str | None = None,
) -> None:
    """The build says what is wrong, with these words in it, and the lakehouse stands as it stood."""
    before = standing(workshop)
    with pytest.raises(error) as raised:
        workshop.build(table, days, version)
    assert all(word in str(raised.value) for word in named), str(raised.value)
    assert raised.value.hint, "what to do next belongs to every error"
    assert standing(workshop) == before


def test_damaged_files_are_refused_by_name_and_taken_in_once_they_are_whole(workshop: Workshop) -> None:
    """Half of a file's lines would count as the file: it is refused before anything is read, also the one beside it.

    What raw has of a file is what stood there when it was read; a correction lands as a new file. A file without
    lines is a delivery of nothing.
    """
    land_rates(workshop, "sound")
    file = land_rates(workshop, "later")
    whole = file.read_bytes()
    scribbled = whole[:40] + bytes(255 - byte for byte in whole[40:60]) + whole[60:]
    undecodable = "undecodable gzip at byte"
    for damaged, says in (
        (scribbled, undecodable),
        (gzip.decompress(whole), undecodable),
        (whole[:-20], "truncated gzip"),
    ):
        file.write_bytes(damaged)
        refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates/2017-03-01/later.jsonl.gz", says)
    assert workshop.sessions == 0
    file.write_bytes(whole)
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [4]

    file.write_bytes(gzip.compress(b"{}\n"))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates/2017-03-01/later.jsonl.gz changed after it was read")
    file.write_bytes(whole)
    land_rates(workshop, "no-bytes").write_bytes(b"")
    land_rates(workshop, "no-lines").write_bytes(gzip.compress(b""))
    land_rates(workshop, "correction")
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [6]
    next_day = DayRange.of(DAY + timedelta(days=1))
    Path(land(workshop.settings.landing, "fx_rates", str(next_day.first), "none", [])).write_bytes(b"")
    for reused in (False, True):
        assert [(built.rows, built.reused) for built in workshop.build("raw_fx_rates", next_day).days] == [(0, reused)]


def test_a_request_that_cannot_be_meant_is_refused_in_words_and_without_spark(workshop: Workshop) -> None:
    """Days that nothing was delivered for, days that have not ended, a version that is not there, no place to write."""
    land_rates(workshop)
    later = DayRange(DAY, DAY + timedelta(days=2))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates on 2017-03-02", "1 more day", days=later)
    (workshop.settings.landing / "fx_rates" / "2017-03-02").mkdir()
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates on 2017-03-02", days=later)
    refused(workshop, "raw_sales", SourceUnreadable, "sales")
    today = datetime.now(UTC).date()
    for table in ("raw_sales", "bronze_sales", "fact_daily_revenue"):
        refused(workshop, table, InvalidRequest, str(today), "has not ended", days=DayRange(DAY, today))
    far = DayRange.of(today + timedelta(days=3650))
    refused(workshop, "bronze_fx_rates", InvalidRequest, str(far.first), days=far)
    for table, versions in {"fact_sales_transactions": "v1, v2", "bronze_sales": "v1", "raw_sales": "v1"}.items():
        refused(workshop, table, InvalidRequest, f"{table} has no version 'v9'", f"Versions: {versions}.", version="v9")
    workshop.settings.lakehouse.write_text("a file stands where the folder should be")
    for table in ("raw_fx_rates", "bronze_fx_rates"):
        with pytest.raises(LakehouseUnusable, match=str(workshop.settings.lakehouse)) as raised:
            workshop.build(table, DAYS)
        assert raised.value.hint
    assert workshop.sessions == 0


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, spark: SparkSession) -> None:
    """What was staged of it has unknown content: it is not published, and not adopted by the next run."""

    def change_then_start() -> SparkSession:
        file.write_bytes(gzip.compress(b'{"currency": "XTS"}\n', mtime=0))
        return spark

    workshop = Workshop(tmp_path, change_then_start)
    file = land_rates(workshop)
    refused(workshop, "raw_fx_rates", SourceUnreadable, "rates.jsonl.gz changed after it was read")
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [1]
    assert workshop.read("raw_fx_rates")["currency"].tolist() == ["XTS"]


def test_lines_that_are_no_sales(workshop: Workshop) -> None:
    """Broken JSON, bytes that are no text, and other nonsense: quarantined by file and line, the others published."""
    path = land_sales(workshop, sale(), '{"basket_id": "31198', "[1]", "", sale(product_id="2", quantity="many"))
    path.write_bytes(path.read_bytes() + gzip.compress(b'\xff\xfe{"household_id"\n'))
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, DAYS)
    rejects = workshop.read("quarantine_sales")
    columns = (rejects[name].tolist() for name in ("source_file", "source_line", "reasons"))
    found = {(file, line): list(reasons) for file, line, reasons in zip(*columns, strict=True)}
    not_an_object = ["line: is not one JSON object with distinct fields"]
    file = "sales/2017-03-01/sales.jsonl.gz"
    assert found == {
        (file, 2): not_an_object,
        (file, 3): not_an_object,
        (file, 5): ["quantity: 'many' is not a bigint"],
        (file, 6): not_an_object,
    }
    assert workshop.read("bronze_sales")["source_line"].tolist() == [1]


def test_two_runs_of_the_same_day_at_once(workshop: Workshop) -> None:
    """Both end well, and every row is there exactly once: a scheduled run meets one that a person launched."""
    land_sales(workshop, *(sale(product_id=str(number)) for number in range(20)))
    for table in ("raw_sales", "bronze_sales"):
        first, second = at_once(workshop, table)
        assert [built.rows for built in first.days] == [built.rows for built in second.days]
    rows = workshop.read("bronze_sales")
    assert sorted(map(int, rows["product_id"].tolist())) == list(range(20))
    assert rows["deduplicated_rows"].tolist() == [0] * 20
    assert len(workshop.read("raw_sales")) == 20


def at_once(workshop: Workshop, table: str) -> list[BuildResult]:
    """The results of two runs that start together."""
    results: list[BuildResult | Exception] = []
    start = threading.Barrier(2)

    def run() -> None:
        start.wait()
        try:
            results.append(workshop.build(table, DAYS))
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in results if isinstance(result, Exception)]
    assert not errors, errors
    return [result for result in results if isinstance(result, BuildResult)]
