"""The source corrected its files: they are read again, raw gains what differs, and all tables follow."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.publish.crash_points import CrashPoint, nowhere
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.staged_campaign import FACT, checksums, files
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)

Line = dict[str, Any]
Lines = list[Line]
LINES_A_DAY = 120
TABLES = (
    *("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue"),
    *("report_department_revenue", "report_store_ranking", "report_monthly_close"),
)
PLACE = ("source_file", "source_line")
"""A row that moved to another line or file of its arrival day stays in raw where it was read first."""


def land_slice(workshop: Workshop, days: DayRange) -> None:
    """The first real lines of each day, in two files; all rates, and of the catalogue what the next lines name too."""
    workshop.land_real(days)
    products = set()
    for day in days:
        (file,) = folder(workshop, day).iterdir()
        lines = read_lines(file)
        products |= {line["product_id"] for line in lines[: 2 * LINES_A_DAY]}
        lines = lines[:LINES_A_DAY]
        file.unlink()
        write_lines(folder(workshop, day) / "morning.jsonl.gz", lines[: LINES_A_DAY // 2])
        write_lines(folder(workshop, day) / "evening.jsonl.gz", lines[LINES_A_DAY // 2 :])

    for file in (workshop.settings.landing / "products").glob("*/*.jsonl.gz"):
        correct(file, lambda lines: [line for line in lines if line["product_id"] in products])


def folder(workshop: Workshop, day: date) -> Path:
    return workshop.settings.landing / "sales" / str(day)


def read_lines(file: Path) -> Lines:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))


def correct(file: Path, change: Callable[[Lines], Sequence[Line]]) -> None:
    """Replace ``file`` by what ``change`` makes of its lines."""
    write_lines(file, change(read_lines(file)))


def build_everything(workshop: Workshop, days: DayRange) -> None:
    workshop.build_all(days, "v2")
    workshop.build_reports(days)


def built_from_scratch(workshop: Workshop, with_references: Path, home: Path) -> Workshop:
    """A lakehouse that has only ever seen the landing zone as it is now, beside rates and products."""
    fresh = Workshop(shutil.copytree(with_references, home), workshop.builder.lake.spark)
    shutil.rmtree(fresh.settings.landing)
    shutil.copytree(workshop.settings.landing, fresh.settings.landing)
    build_everything(fresh, DAYS)
    return fresh


def assert_same_rows(one: Workshop, other: Workshop, tables: Iterable[str] = TABLES) -> None:
    """Row for row, in every column but the place in the landed files."""
    for table in tables:
        pd.testing.assert_frame_equal(_in_order(one.read(table)), _in_order(other.read(table)), obj=table)


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows.drop(columns=[name for name in PLACE if name in rows])
    names = sorted(map(str, rows.columns))
    texts = pd.DataFrame({name: [str(value) for value in rows[name].tolist()] for name in names})
    return texts.sort_values(names, ignore_index=True)


DAYS = DayRange.parse("2017-03-01..2017-03-04")
FIRST, SECOND, THIRD, FOURTH = DAYS
LATER = "2017-03-20T00:00:00Z"
TAKEN_BACK = "32053106851-873902"
"""The key of the third real line of the first day."""
REFERENCE = ("raw_fx_rates", "raw_products", "bronze_fx_rates", "bronze_products")


@pytest.fixture(scope="module")
def with_references(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Four real days have landed, of which one line is rejected and one moved; rates and products are published."""
    workshop = Workshop(tmp_path_factory.mktemp("references") / "home", lambda: spark)
    land_slice(workshop, DAYS)
    correct(folder(workshop, FIRST) / "morning.jsonl.gz", lambda lines: [{**lines[0], "quantity": "-3"}, *lines[1:]])
    moved = {**read_lines(folder(workshop, FIRST) / "evening.jsonl.gz")[0], "updated_at": LATER}
    moved["transaction_timestamp"] = f"{SECOND}T10:00:00Z"
    correct(folder(workshop, SECOND) / "morning.jsonl.gz", lambda lines: [*lines, moved])
    workshop.build_rates(DAYS)
    workshop.build_products(DAYS)
    return workshop.settings.home


@pytest.fixture(scope="module")
def built_home(with_references: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """All of it, down to every report."""
    home = shutil.copytree(with_references, tmp_path_factory.mktemp("corrected") / "home")
    build_everything(Workshop(home, lambda: spark), DAYS)
    return home


@pytest.fixture
def sales(built_home: Path, tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(shutil.copytree(built_home, tmp_path / "home"), lambda: spark)


@pytest.fixture
def backfill(sales: Workshop, type_on: TypeOn) -> Backfill:
    return type_on(sales)


def correct_everything(workshop: Workshop) -> None:
    """Another price, lines gone and new ones, another order, a line in another file, a file gone and one added.

    The rejected line is corrected, the newer version of the moved transaction is taken back, a line is there twice.
    """

    def prices(lines: Lines) -> Lines:
        changed = {**lines[1], "sales_value": "99.99", "updated_at": LATER}
        return [{**lines[0], "quantity": "3"}, changed, *reversed(lines[5:])]

    correct(folder(workshop, FIRST) / "morning.jsonl.gz", prices)
    kept: Lines = []

    def take_back(lines: Lines) -> Lines:
        kept.extend(lines[:10])
        return lines[10:-1]

    correct(folder(workshop, SECOND) / "morning.jsonl.gz", take_back)
    correct(folder(workshop, SECOND) / "evening.jsonl.gz", lambda lines: [*lines, *kept, lines[0]])
    lines = read_lines(folder(workshop, THIRD) / "evening.jsonl.gz")
    (folder(workshop, THIRD) / "evening.jsonl.gz").unlink()
    added = {**lines[0], "basket_id": "900000000001", "transaction_timestamp": f"{FOURTH}T09:00:00Z"}
    write_lines(folder(workshop, THIRD) / "night.jsonl.gz", [*lines[2:], added])


def test_a_corrected_source_ends_as_if_it_had_always_been_so(
    sales: Workshop, backfill: Backfill, with_references: Path, tmp_path: Path
) -> None:
    raw, before = files(sales, "raw_sales"), sales.contents()
    correct_everything(sales)
    with pytest.raises(SourceUnreadable, match=f"backfill raw refresh raw_sales {FIRST}"):
        sales.build("raw_sales", DAYS)

    shown = backfill.json("raw", "refresh", "raw_sales", DAYS, "--dry-run")

    assert sales.contents() == before
    done = backfill.json("raw", "refresh", "raw_sales", DAYS)
    assert done["rows"] == shown["rows"]
    assert [(each["event_day"], each["added"], each["deleted"]) for each in done["rows"]] == [
        (str(FIRST), 2, 5),
        (str(SECOND), 1, 1),
        (str(THIRD), 0, 2),
        (str(FOURTH), 1, 0),
    ]
    assert {
        each["arrival_day"]: [len(each[kind]) for kind in ("changed", "gone", "new")] for each in done["files"]
    } == {
        str(FIRST): [1, 0, 0],
        str(SECOND): [2, 0, 0],
        str(THIRD): [0, 1, 1],
        str(FOURTH): [0, 0, 0],
    }
    after = files(sales, "raw_sales")
    assert {path: after[path] for path in raw} == raw, "raw is only appended to"

    sessions = sales.sessions
    assert backfill.json("raw", "refresh", "raw_sales", DAYS)["publication"] == ""
    assert all(day.reused for day in sales.build("raw_sales", DAYS).days), "every file counts as read as it is now"
    assert sales.sessions == sessions

    (fate,) = backfill.json("trace", TAKEN_BACK)["landed"]
    assert fate["outcome"] == "deleted" and f"read again by {done['publication']} on 20" in fate["why"]
    assert fate["why"].endswith(f"; {FIRST} was not built since")

    build_everything(sales, DAYS)
    fresh = built_from_scratch(sales, with_references, tmp_path / "fresh")
    assert_same_rows(sales, fresh)
    assert len(fresh.read(FACT, DayRange.of(FIRST))) == LINES_A_DAY - 3
    assert deleted(sales) == {FIRST: 5, SECOND: 1, THIRD: 2}


def deleted(workshop: Workshop) -> dict[object, object]:
    metrics = {day: state.content.metrics for day, state in workshop.states("raw_sales").items() if state.content}
    return {day: of["deleted"] for day, of in metrics.items() if "deleted" in of}


def test_a_plan_of_the_source_reads_it_again_and_publishes_together_what_is_built_of_it(
    sales: Workshop, backfill: Backfill, with_references: Path, tmp_path: Path
) -> None:
    """A price is corrected and a line taken back; on another day a file is withdrawn. Both parts can be undone."""
    before, raw = checksums(sales, *TABLES), files(sales, "raw_sales")
    others = {table: sales.states(table) for table in REFERENCE}
    withdrawn = len(read_lines(folder(sales, THIRD) / "evening.jsonl.gz"))
    correct(
        folder(sales, SECOND) / "morning.jsonl.gz",
        lambda lines: [{**lines[0], "sales_value": "77.77", "updated_at": LATER}, *lines[2:]],
    )
    (folder(sales, THIRD) / "evening.jsonl.gz").unlink()

    plan = backfill.json("plan", FACT, "--days", DAYS, "--scope", "source")

    assert plan["scope"] == "source" and "This scope fits" in plan["scope_that_fits"]
    why, both = {step["table"][0]: step["why"] for step in plan["steps"] if step["why"]}, [f"{SECOND}..{THIRD}"]
    assert why["raw_sales"] == {"changed at the source": both}
    assert why["bronze_sales"] == why[FACT] == {"an input is rebuilt": both}
    assert plan["source_files"] == [
        {"table": "raw_sales", "arrival_day": str(SECOND), "changed": 1, "gone": 0, "new": 0},
        {"table": "raw_sales", "arrival_day": str(THIRD), "changed": 0, "gone": 1, "new": 0},
    ]

    backfill("run", plan["plan"], "--limits", "deviation=90%")

    after = files(sales, "raw_sales")
    assert {path: after[path] for path in raw} == raw and len(after) > len(raw)
    assert deleted(sales) == {SECOND: 2, THIRD: withdrawn}
    assert checksums(sales, *TABLES) == before, "what is built from raw is as it was until it is approved"

    approved = backfill.json("approve", plan["plan"], "--yes")

    assert_same_rows(sales, built_from_scratch(sales, with_references, tmp_path / "fresh"))
    assert {table: sales.states(table) for table in REFERENCE} == others
    brought = {sales.states(table)[SECOND].publication for table in ("bronze_sales", FACT, "fact_daily_revenue")}
    assert brought == {approved["publication"]}
    now = checksums(sales, *TABLES)
    refused = backfill("rollback", plan["plan"], "--yes", exit_code=1)
    assert "the logic from before it gives the same rows" in refused.stderr
    assert (checksums(sales, *TABLES), files(sales, "raw_sales")) == (now, after), "nothing contradicts what it reads"

    (refresh,) = {sales.states("raw_sales")[day].publication for day in (SECOND, THIRD)}
    backfill("rollback", refresh, "--yes")
    build_everything_but_raw(sales)
    assert checksums(sales, *TABLES) == before, "as if the source had never been read again"


def build_everything_but_raw(workshop: Workshop) -> None:
    workshop.build("bronze_sales", DAYS)
    workshop.build(FACT, DAYS, "v2")
    workshop.build("fact_daily_revenue", DAYS)
    workshop.build_reports(DAYS)


class _Died(BaseException):
    """The process was killed."""


@pytest.mark.long
def test_a_killed_refresh_has_published_all_or_nothing_and_its_undo_leaves_it_to_be_done_again(
    sales: Workshop, backfill: Backfill
) -> None:
    """Rows and positions are one commit: the next refresh finds everything to do, or nothing."""
    before = sales.contents()["raw_sales"]
    correct_everything(sales)
    publisher = sales.builder.lake.publisher

    def killed_at(point: CrashPoint) -> None:
        def die(step: CrashPoint, about: str) -> None:
            if step is point:
                raise _Died

        publisher.reached = die
        with pytest.raises(_Died):
            sales.builder.refresh(CATALOG.step("raw_sales"), list(DAYS), run=RunInfo("killed"))
        publisher.reached = nowhere

    killed_at(CrashPoint.TABLES_READ)
    assert sales.contents()["raw_sales"] == before
    killed_at(CrashPoint.TABLE_COMMITTED)
    sessions = sales.sessions
    assert backfill.json("raw", "refresh", "raw_sales", DAYS)["publication"] == "", "its entry was finished"
    assert sales.sessions == sessions
    after = sales.contents()["raw_sales"]
    assert after != before

    backfill("rollback", sales.states("raw_sales")[FIRST].publication, "--yes")
    assert sales.contents()["raw_sales"] == before
    assert backfill.json("raw", "refresh", "raw_sales", DAYS)["publication"]
    assert sales.contents()["raw_sales"] == after


def test_a_newer_version_that_its_source_took_back_lets_the_older_one_stand(workshop: Workshop) -> None:
    """It belonged to another day: on the day of the older one, all that is deleted is the marker."""
    landing = workshop.settings.landing
    older = sale(sales_value="0.50", updated_at="2017-03-02T00:00:00Z")
    newer = {**older, "transaction_timestamp": "2017-03-03T10:00:00Z", "updated_at": "2017-03-04T00:00:00Z"}
    land(landing, "sales", str(SECOND), "a", [older])
    taken_back = Path(land(landing, "sales", str(FOURTH), "b", [newer]))
    workshop.build("raw_sales", [SECOND, FOURTH])
    taken_back.unlink()
    workshop.builder.refresh(CATALOG.step("raw_sales"), [FOURTH], run=RunInfo("refresh"), progress=lambda _: None)
    workshop.build("bronze_sales", [FIRST, THIRD])
    bronze = workshop.read("bronze_sales", columns=["day", "sales_value", "superseded_by_day"])
    assert bronze.astype(str).values.tolist() == [[str(FIRST), "0.50", "<NA>"]]
