"""``backfill sql``: rows for people, as JSON, CSV and Parquet; the file of views."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from backfill_assets_tests.cli.command import Backfill, built_once
from backfill_assets_tests.cli.terminal import terminal

pytestmark = pytest.mark.protocol
REVENUE = "fact_daily_revenue"
DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)
QUERY = f"SELECT day, sum(id) AS ids, [1, 2] AS list FROM {REVENUE} GROUP BY day ORDER BY day"  # noqa: S608 - our names


def publish(backfill: Backfill) -> None:
    backfill.lakehouse.publish("20170601t120100-one-1a2b3c4d", {REVENUE: {DAY: [1, 2], NEXT: [3]}})
    backfill.lakehouse.publish("20170601t120200-two-2b3c4d5e", {REVENUE: {NEXT: [4]}})


lake = built_once(publish)


def test_one_query_in_each_form(lake: Backfill, tmp_path: Path) -> None:
    rows = [{"day": "2017-03-01", "ids": 3, "list": [1, 2]}, {"day": "2017-03-02", "ids": 4, "list": [1, 2]}]
    found = lake.json("sql", QUERY)
    assert found["rows"] == rows and list(found["read"]) == ["main"]
    assert lake("sql", QUERY).stdout.splitlines() == ["day\tids\tlist", "2017-03-01\t3\t1; 2", "2017-03-02\t4\t1; 2"]
    assert list(csv.reader(lake("sql", QUERY, "--csv").stdout.splitlines()))[1] == ["2017-03-01", "3", "[1, 2]"]
    for name in ("rows.parquet", "rows.csv"):
        lake("sql", QUERY, tmp_path / name)
    assert pq.read_table(tmp_path / "rows.parquet").column("day").to_pylist() == [DAY, NEXT]
    assert (tmp_path / "rows.csv").read_text() == lake("sql", QUERY, "--csv").stdout
    assert {each.name for each in tmp_path.glob("*rows*")} == {"rows.csv", "rows.parquet"}


def test_ids_are_completed_and_columns_of_one_name_are_kept_apart(lake: Backfill) -> None:
    then = lake.json("sql", f"SELECT max(id) AS m FROM {REVENUE}", "--as-of", "1a2b3c")  # noqa: S608
    assert then["rows"] == [{"m": 3}]
    both = f"SELECT n.id, t.id FROM {REVENUE} n JOIN \"as of 1a2b3c\".{REVENUE} t USING (day) WHERE day = '{NEXT}'"  # noqa: S608
    assert lake.json("sql", both)["rows"] == [{"id": 4, "id_1": 3}]


def test_without_a_query_it_lists_the_tables(lake: Backfill) -> None:
    assert lake.json("sql")["tables"] == [{"table": REVENUE, "columns": "id, day"}]


def test_a_screen_gets_the_first_rows_and_is_told_so(lake: Backfill) -> None:
    with terminal(80):
        said = lake("sql", "SELECT * FROM range(101)").output
    assert "Only the first 100 rows are shown" in said and "entry" not in lake("sql", "SELECT 1").stdout


def test_what_does_not_fit_together_is_refused(lake: Backfill, tmp_path: Path) -> None:
    assert "ends in none of .parquet, .csv" in lake("sql", QUERY, tmp_path / "a.xlsx", exit_code=1).stderr
    assert "There is no folder" in lake("sql", QUERY, tmp_path / "no" / "a.csv", exit_code=1).stderr
    assert "Give one of --csv" in lake("sql", QUERY, tmp_path / "a.csv", "--csv", exit_code=2).stderr
    assert "or on a timeline" in lake("sql", QUERY, "--as-of", "1a2b3c", "--on", "trial", exit_code=1).stderr
    assert list(tmp_path.glob("a.*")) == []


def test_the_file_of_views_is_kept_once_it_is_asked_for(lake: Backfill) -> None:
    assert "Nothing was published" in lake("--lakehouse", lake.home / "none", "sql", "readers.sql", exit_code=1).stderr
    file = Path(lake.json("sql", "readers.sql")["file"])
    lake.lakehouse.publish("three", {REVENUE: {DAY: [9]}})
    connection = duckdb.connect()
    connection.execute(file.read_text())
    assert connection.execute(f"SELECT sum(id) FROM {REVENUE}").fetchall() == [(13,)]  # noqa: S608
