"""What sources and people do wrong: a clear error, or a quarantine reason with file and line, and nothing half done.

After each mistake the lakehouse stands as before, and the next run works as if nothing had happened.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
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


def refused(workshop: Workshop, table: str, error: type[BackfillError], *named: str, days: DayRange = DAYS) -> None:
    """The build says what is wrong, with these words in it, and the lakehouse stands as it stood."""
    before = standing(workshop)
    with pytest.raises(error) as raised:
        workshop.build(table, days)
    assert all(word in str(raised.value) for word in named), str(raised.value)
    assert raised.value.hint, "what to do next belongs to every error"
    assert standing(workshop) == before


def scribbled(whole: bytes) -> bytes:
    return whole[:40] + bytes(255 - byte for byte in whole[40:60]) + whole[60:]


def cut_short(whole: bytes) -> bytes:
    return whole[:-20]


def not_gzip(whole: bytes) -> bytes:
    return gzip.decompress(whole)


@pytest.mark.parametrize(
    ("damage", "says"),
    [(scribbled, "undecodable gzip at byte"), (not_gzip, "undecodable gzip at byte"), (cut_short, "truncated gzip")],
)
def test_damaged_gzip(workshop: Workshop, damage: Callable[[bytes], bytes], says: str) -> None:
    """Refused by name before anything is read: half of a file's lines would count as the file. No Spark starts."""
    land_rates(workshop, "sound")
    damaged = land_rates(workshop, "later")
    damaged.write_bytes(damage(damaged.read_bytes()))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates/2017-03-01/later.jsonl.gz", says)
    assert workshop.sessions == 0


def test_once_the_file_is_whole_the_next_run_takes_everything_in(workshop: Workshop) -> None:
    """Also the sound file beside it, which was not taken in on its own."""
    land_rates(workshop, "sound")
    file = land_rates(workshop, "later")
    whole = file.read_bytes()
    file.write_bytes(cut_short(whole))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "later.jsonl.gz")
    file.write_bytes(whole)
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [4]


def test_a_file_that_changed_after_it_was_read(workshop: Workshop) -> None:
    """What raw has of it is what stood there; a correction lands as a new file, which the next run takes in."""
    file = land_rates(workshop)
    workshop.build("raw_fx_rates", DAYS)
    read = file.read_bytes()
    file.write_bytes(gzip.compress(b"{}\n"))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates/2017-03-01/rates.jsonl.gz changed after it was read")
    file.write_bytes(read)
    land_rates(workshop, "correction")
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [4]


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


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")], ids=["no-bytes", "no-lines"])
def test_an_empty_file_is_a_delivery(workshop: Workshop, content: bytes) -> None:
    """The day is published with zero rows, and the next run has nothing to do for it."""
    land_rates(workshop).write_bytes(content)
    assert [(built.rows, built.reused) for built in workshop.build("raw_fx_rates", DAYS).days] == [(0, False)]
    assert workshop.build("raw_fx_rates", DAYS).days[0].reused


def test_a_day_without_files(workshop: Workshop) -> None:
    """Nothing delivered is not the same as nothing sold; the whole range is refused, the day before too."""
    land_rates(workshop)
    later = DayRange(DAY, DAY + timedelta(days=2))
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates on 2017-03-02", "1 more day", days=later)
    (workshop.settings.landing / "fx_rates" / "2017-03-02").mkdir()
    refused(workshop, "raw_fx_rates", SourceUnreadable, "fx_rates on 2017-03-02", days=later)
    refused(workshop, "raw_sales", SourceUnreadable, "sales")
    assert workshop.sessions == 0


def test_a_range_that_has_not_ended(workshop: Workshop) -> None:
    """Today's arrivals are not complete, tomorrow's cannot be there: neither becomes an empty published day."""
    today = datetime.now(UTC).date()
    for table in ("raw_sales", "bronze_sales", "fact_daily_revenue"):
        refused(workshop, table, InvalidRequest, str(today), "has not ended", days=DayRange(DAY, today))
    far = DayRange.of(today + timedelta(days=3650))
    refused(workshop, "bronze_fx_rates", InvalidRequest, str(far.first), days=far)
    assert workshop.sessions == 0


def test_a_range_the_wrong_way_round(workshop: Workshop) -> None:
    """Said with the range that was probably meant; never read as an empty range, which would succeed."""
    arguments = ["--lakehouse", str(workshop.settings.lakehouse), "status", "--days", "2017-05-29..2017-03-01"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code != 0
    assert "Did you mean 2017-03-01..2017-05-29?" in result.output


def test_a_version_that_does_not_exist(workshop: Workshop) -> None:
    """The versions there are, are named in the error; for every kind of table, raw too."""
    for table, versions in {"fact_sales_transactions": "v1, v2", "bronze_sales": "v1", "raw_sales": "v1"}.items():
        before = standing(workshop)
        with pytest.raises(InvalidRequest, match=rf"{table} has no version 'v9'[\s\S]*Versions: {versions}\."):
            workshop.build(table, DAYS, "v9")
        assert standing(workshop) == before
    assert workshop.sessions == 0


def test_a_lakehouse_that_is_not_writable(workshop: Workshop) -> None:
    """Here a file stands where the folder should be. Said before Spark starts, not after an hour of computing."""
    land_rates(workshop)
    workshop.settings.lakehouse.write_text("")
    for table in ("raw_fx_rates", "bronze_fx_rates"):
        with pytest.raises(LakehouseUnusable, match=str(workshop.settings.lakehouse)) as raised:
            workshop.build(table, DAYS)
        assert raised.value.hint
    assert workshop.sessions == 0
    workshop.settings.lakehouse.unlink()
    assert [built.rows for built in workshop.build("raw_fx_rates", DAYS).days] == [2]


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
