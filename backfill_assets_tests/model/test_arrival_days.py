"""The arrival day of a file is what its folder or its own name says, and nothing is guessed."""

from __future__ import annotations

from datetime import date

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.arrival_days import FileNames, arrival_day, folder_day

DAY = date(2017, 3, 1)


@pytest.mark.parametrize(
    ("pattern", "name", "day"),
    [
        ("sales_{day}.csv", "sales_2017-03-01.csv", DAY),
        ("sales_{day}.csv", "sales_2017-03-01.csv.gz", None),
        ("sales_{day}.csv", "sales_20170301.csv", None),
        ("sales_{day}.csv", "sales_2017-02-30.csv", None),
        ("sales_{day}.csv", "sales_x2017-03-01.csv", None),
        ("sales_{day}.csv", "Sales_2017-03-01.csv", None),
        ("{day:%Y%m%d}-*.jsonl.gz", "20170301-till 7.jsonl.gz", DAY),
        ("{day:%Y%m%d}-*.jsonl.gz", "20170301.jsonl.gz", None),
        ("{day:%Y%m%d}-*.jsonl.gz", "20171301-a.jsonl.gz", None),
        ("till+*({day:%d.%m.%Y}).csv", "till+7(01.03.2017).csv", DAY),
    ],
)
def test_a_name_says_its_day(pattern: str, name: str, day: date | None) -> None:
    assert FileNames(pattern).day_of(name) == day
    assert arrival_day(f"sales/{name}", pattern) == (day or arrival_day(f"sales/{name}"))


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "sales.csv", "{day}_{day}.csv", "{day}/a.csv", "{tag}_{day}.csv", "{day.csv"),
        *("sales[1]_{day}.csv", "sales?_{day}.csv", "sales\\_{day}.csv"),
        *("{day:%d.%m}.csv", "{day:%Y-%m}.csv", "{day:%Y/%m/%d}.csv", "{day:%Q}.csv", "{day:day}.csv"),
    ],
)
def test_a_pattern_that_names_no_day_is_refused(pattern: str) -> None:
    """When it is declared, with one that is right. A file system would look for other names than those with a ``?``."""
    with pytest.raises(InvalidRequest, match="cannot be declared as") as refused:
        FileNames(pattern)
    assert "{day}" in str(refused.value.hint)


def test_a_folder_is_called_as_its_day() -> None:
    """As this project writes it, or as Hive and Spark do."""
    assert folder_day("2017-03-01") == folder_day("day=2017-03-01") == DAY
    assert [folder_day(name) for name in ("20170301", "date=2017-03-01", "day=2017-02-30", "march")] == [None] * 4


@pytest.mark.parametrize(
    ("path", "day"),
    [
        ("sales/2017-03-01/2016-01-01.jsonl.gz", DAY),
        ("sales/day=2017-03-01/a.csv", DAY),
        ("sales/sales_2017-03-01.csv", DAY),
        ("sales/sales_20170301.csv", DAY),
        ("sales/march/2017-03-01.csv", None),
        ("sales/2017-03-01..2017-03-02.csv", None),
        ("sales/till 120170301.csv", None),
        ("sales/a.csv", None),
    ],
)
def test_the_day_of_a_path_that_raw_has_recorded(path: str, day: date | None) -> None:
    """It may be older than the declared pattern."""
    assert arrival_day(path) == arrival_day(path, "other_{day}.json") == day
