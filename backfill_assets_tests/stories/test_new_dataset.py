"""A declaration that a file proposes, from an empty project to a published report: nothing in it is written by hand."""

from __future__ import annotations

import gzip
import importlib
import json
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable

from backfill_assets.proposal.of_tables import proposed_table
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGE = "corner_bakery"
FIRST = datetime(2026, 1, 5, tzinfo=UTC)
SHELVES = ("bread", "cake", "rolls")
RUFF = (sys.executable, "-m", "ruff", "format", "--isolated", "--check")


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(tmp_path / "home", lambda: spark)


@pytest.fixture
def backfill(
    workshop: Workshop, type_on: TypeOn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backfill]:
    """The command in an empty folder, which ``init`` has made a project of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    typing = type_on(workshop)
    monkeypatch.setenv("BACKFILL_DATASETS", f"{PACKAGE}.datasets")
    typing("init", ".", PACKAGE)
    yield typing
    for name in [name for name in sys.modules if name.split(".")[0] == PACKAGE]:
        del sys.modules[name]


def sold(rows: int = 900) -> list[dict[str, Any]]:
    """Sales of three days, of which every fiftieth is corrected an hour later."""
    found = []
    for number in range(rows):
        at = FIRST + timedelta(minutes=number * 3 * 24 * 60 // rows)
        sale = {
            "sale_no": 1_000 + number,
            "shelf": SHELVES[number * number % 3],
            "price": f"{number % 40}.{number % 100:02d}",
            "sold_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "email": f"guest{number % 80}@example.org",
            "updated_at": f"{at:%Y-%m-%dT%H:%M:%S.250Z}",
        }
        found.append(sale)
        if number % 50 == 0:
            found.append({**sale, "price": "1.00", "updated_at": f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"})
    return found


def written_csv(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """With semicolons, and a text that has one."""
    lines = [";".join((*rows[0], "note")), *(";".join((*map(str, each.values()), '"a; b"')) for each in rows)]
    file.write_text("\n".join([*lines, ""]))


def written_json(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """With numbers, a list and an object as JSON has them."""
    own = ({**each, "price": float(each["price"]), "tags": ["a", each["shelf"]], "by": {"till": 1}} for each in rows)
    with gzip.open(file, "wt") as out:
        out.writelines(f"{json.dumps(each)}\n" for each in own)


def written_parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """With decimals and moments as Parquet has them."""
    prices = pa.array([Decimal(each["price"]) for each in rows], pa.decimal128(18, 2))
    columns = {name: [each[name] for each in rows] for name in rows[0]}
    moments = {name: pa.array(map(datetime.fromisoformat, columns[name])) for name in ("sold_at", "updated_at")}
    pq.write_table(pa.table({**columns, **moments, "price": prices}), file)


FILES = {"sales.csv": written_csv, "sales.jsonl.gz": written_json, "sales.parquet": written_parquet}


@pytest.mark.parametrize("name", FILES)
def test_from_a_file_to_a_published_report(
    name: str, backfill: Backfill, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sold()
    FILES[name](tmp_path / name, rows)
    told = backfill("dataset", "new", "bakery", name).stdout
    declared = tmp_path / PACKAGE / "datasets" / "bakery.py"
    text = declared.read_text()
    subprocess.run([*RUFF, declared], check=True)
    subprocess.run([*RUFF, "--line-length", "120", declared], check=True)

    assert "sale_no: int = Field(key=True" in text
    assert "# 918 of 918 rows, 900 different values" in text
    assert "# QUESTION: is updated_at the version? It is the only one that differs between rows of equal key." in text
    assert "sold_at: datetime = Field(event_day=True" in text and "first_day=date(2026, 1, 5)" in text
    assert "price: Annotated[T.DecimalType, 18, 2]" in text
    assert "# QUESTION: is email personal?" in text and "guest1@" not in text
    questions = [line.strip() for line in text.splitlines() if line.strip().startswith("# QUESTION: ")]

    # What comes next is typed as it is told.
    commands = [shlex.split(line) for line in told.splitlines() if line.startswith("  ")]
    (_, _, folder), (_, source, landed), (_, *check), *runs = commands
    Path(folder).mkdir(parents=True)
    shutil.copy(source, landed)
    importlib.invalidate_caches()
    dataset = importlib.import_module(f"{PACKAGE}.datasets.bakery").BAKERY.dataset()
    declare(monkeypatch, dataset)
    checked = backfill.json(*check)
    assert checked["problems"] == [] and checked["files"][0]["quarantined"] == 0
    assert [f"# QUESTION: {each['question']}" for each in checked["questions"]] == questions
    line = 1 + next(number for number, each in enumerate(text.splitlines()) if "is updated_at" in each)
    assert f"{PACKAGE}/datasets/bakery.py, line {line}" in [each["where"] for each in checked["questions"]]

    for _, *run in runs:
        backfill(*run)
    report = workshop.read("report_bakery")
    found = {(day, shelf): count for day, shelf, count in report[["day", "shelf", "entries"]].itertuples(index=False)}
    newest = {each["sale_no"]: each for each in rows}.values()
    assert found == Counter((date.fromisoformat(each["sold_at"][:10]), each["shelf"]) for each in newest)
    assert len(workshop.read("bronze_bakery")) == 900 and workshop.read("quarantine_bakery").empty

    # Who answers a question deletes its line.
    declared.write_text("".join(each for each in text.splitlines(True) if "# QUESTION: " not in each))
    assert backfill.json(*check)["questions"] == []


def test_a_table_that_spark_wrote_is_read_with_mapped_columns_and_deletion_vectors(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its log says what its columns are called and are; a few files say the rest."""
    location = str(tmp_path / "orders")
    spark.range(0, 200).selectExpr(
        "id AS `Order No`", "date_add(DATE'2026-01-05', CAST(id DIV 50 AS INT)) AS ordered", "1.50 AS amount"
    ).coalesce(1).write.format("delta").options(
        **{"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    ).save(location)
    DeltaTable.forPath(spark, location).delete("`Order No` = 7")
    assert "deletionVector" in "".join(each.read_text() for each in Path(location, "_delta_log").glob("*1.json"))
    text = proposed_table("shop", "corner", location).text
    assert 'order_no: int = Field(key=True, landed="Order No", description="Order no.")' in text
    assert 'day="ordered"' in text and "first_day=date(2026, 1, 5)" in text
    assert "amount: Annotated[T.DecimalType, 3, 2]" in text
