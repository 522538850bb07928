"""Raw rows that Spark takes from its workers: of files, and put on their days anew; whatever the session is."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import LakehouseUnusable, SourceUnreadable
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.landed_rows import landed_rows, placed_anew
from backfill_assets.model.landed import raw_schema
from backfill_assets.spark.workers import errors_of_workers
from backfill_assets_tests.landing.test_landing_files import ARRIVED, KEY, damage, landing_file
from backfill_assets_tests.strategies.landed_sales import land, land_key, sale
from backfill_assets_tests.strategies.raw_sales import raw_sales

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SOURCE = SALES.source


def test_the_schema_is_the_declared_one_with_and_without_files(each_spark: SparkSession, tmp_path: Path) -> None:
    """A day on which nothing landed must stage the same columns as any other."""
    key = land_key(tmp_path, KEY)
    full = landed_rows(each_spark, SOURCE, [landing_file(land(tmp_path, "sales", str(ARRIVED), "one", [sale()]))], key)
    empty = landed_rows(each_spark, SOURCE, [], key)
    assert full.schema == empty.schema == raw_schema(SOURCE)
    (row,) = full.collect()
    assert (row["basket_id"], row["arrival_day"], row["day"]) == (sale()["basket_id"], ARRIVED, date(2017, 3, 1))
    assert empty.collect() == []


def test_line_numbers_are_right_in_many_small_files(spark: SparkSession, tmp_path: Path) -> None:
    """Small files share a task; a number that went on counting would point at the wrong line.

    A gzip of nothing and a file of no bytes have no lines, and are no error.
    """
    nothing = tmp_path / "sales" / "2017-03-01" / "nothing.jsonl.gz"
    files, expected = [land(tmp_path, "sales", "2017-03-01", "empty", []), str(nothing)], set()
    nothing.touch()
    for number in range(40):
        lines: list[str | dict[str, str | None]] = [sale(basket_id=f"{number}-{n}") for n in range(number % 7)]
        lines.insert(len(lines) // 2, "   ")
        files.append(land(tmp_path, "sales", f"2017-03-{number % 5 + 1:02d}", f"part+ %20[{number}]", lines))
        for position, line in enumerate(lines, start=1):
            if isinstance(line, dict):
                path = Path(files[-1]).relative_to(tmp_path).as_posix()
                expected.add((path, position, line["basket_id"]))
    rows = landed_rows(spark, SOURCE, [*map(landing_file, files)], land_key(tmp_path, KEY))
    found = rows.select("source_file", "source_line", "basket_id").collect()
    assert {tuple(row) for row in found} == expected
    assert len(found) == len(expected)


def test_what_cannot_be_read_is_named_when_rows_are_taken(each_spark: SparkSession, tmp_path: Path) -> None:
    """Spark puts an error of a worker into one of its own, with all that Python said."""
    lines = [sale(basket_id=str(number)) for number in range(2_000)]
    path = land(tmp_path, "sales", str(ARRIVED), "one", lines)
    file, key = landing_file(path), land_key(tmp_path, KEY)
    damage(path)
    damaged = landed_rows(each_spark, SOURCE, [file], key)
    with pytest.raises(SourceUnreadable, match=r"one\.jsonl\.gz: undecodable gzip") as unreadable, errors_of_workers():
        damaged.count()
    assert unreadable.value.hint and unreadable.value.hint.startswith("Land the whole file again")
    short = landed_rows(each_spark, SOURCE, [file], land_key(tmp_path, "short"))
    with pytest.raises(LakehouseUnusable, match=r"token\.key has fewer than 16") as unusable, errors_of_workers():
        short.count()
    assert unusable.value.hint is None


def test_no_plan_shows_the_key(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plans end up in event logs and in the UI."""
    file = landing_file(land(tmp_path, "sales", str(ARRIVED), "one", [sale()]))
    rows = landed_rows(spark, SOURCE, [file], land_key(tmp_path, KEY))
    assert len(rows.select("household_token").collect()) == 1
    for mode in ("extended", "formatted", "codegen"):
        rows.explain(mode=mode)
    execution = getattr(rows, "_jdf").queryExecution()  # noqa: B009
    plan = capsys.readouterr().out + execution.optimizedPlan().toJSON() + execution.executedPlan().toJSON()
    assert "MapInArrow" in plan and KEY not in plan and KEY.encode().hex() not in plan.lower()


PLACED = {
    "2017-03-01T23:59:59Z": (date(2017, 3, 1), False),
    "2017-02-20T00:00:00Z": (date(2017, 2, 20), False),
    "2017-02-19T23:59:59Z": (ARRIVED, True),
    "2017-03-03T10:00:00Z": (date(2017, 3, 3), False),
    "2017-03-04T10:00:00Z": (ARRIVED, True),
    "yesterday": (ARRIVED, True),
    None: (ARRIVED, True),
}
"""The day of each moment for a row that landed on the second of March, with the 20th of February as the first day."""


def test_rows_are_placed_by_what_is_declared_now(each_spark: SparkSession) -> None:
    """Wherever they were before; all else of them stays as it is."""
    found = [
        {"transaction_timestamp": moment, "day": date(2017, 3, 9), "arrival_day": ARRIVED, "source_line": number}
        for number, moment in enumerate(PLACED, start=1)
    ]
    rows = raw_sales(each_spark, found)
    placed = placed_anew(rows, replace(SOURCE, first_day=date(2017, 2, 20)))
    assert placed.schema == raw_schema(SOURCE)
    after = {row["transaction_timestamp"]: row.asDict() for row in placed.collect()}
    assert {moment: (row["day"], row["day_is_arrival"]) for moment, row in after.items()} == PLACED
    others = [name for name in rows.columns if name not in ("day", "day_is_arrival")]
    before = {row["transaction_timestamp"]: row.asDict() for row in rows.collect()}
    assert all(
        {name: before[at][name] for name in others} == {name: row[name] for name in others} for at, row in after.items()
    )
