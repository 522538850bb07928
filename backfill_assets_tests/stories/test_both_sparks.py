"""Every defect that synthetic sales know, through the whole chain: each line ends where the tally says it must.

The same rows come out of embedded Spark and of a Spark Connect server, and however days are cut and ordered.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from deltalake import DeltaTable

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.defects import DEFECTS
from backfill_assets.examples.sample.synthetic import SyntheticSpec
from backfill_assets.judge import measure
from backfill_assets.judge.engine import DayFiles
from backfill_assets.judge.measure import measure_files, measure_on_executors
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.rebuild import decide, stage
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
from backfill_assets_tests.examples.sample.synthetic_tally import SyntheticTally
from backfill_assets_tests.judge.written_rows import InAStore
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EASTER = DayRange.parse("2017-04-13..2017-04-16")
"""One day with exchange rates, three without; each defect strikes three or four times on each."""
SPEC = SyntheticSpec(days=EASTER, rows_per_day=200, seed=20170413, defects=dict.fromkeys(DEFECTS, 14))

_WORKS_FOR = 12.0
"""An executor has used so much of its processor (s) when it is killed: it has started, and has done some tasks."""
_REASONS = {
    "malformed_amount": ("sales_value: ",),
    "missing_key": ("basket_id: ", "product_id: ", "transaction_id: "),
    "absurd_date": ("transaction_timestamp: ",),
    "unreadable_date": ("transaction_timestamp: ",),
    "broken_line": ("line: ",),
}


@dataclass(frozen=True)
class Built:
    """``with_rates`` is a home in which everything has landed and only the exchange rates are published."""

    workshop: Workshop
    tally: SyntheticTally
    with_rates: Path

    def another(self, home: Path, spark: SparkSession) -> Workshop:
        return Workshop(shutil.copytree(self.with_rates, home / "home"), lambda: spark)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Built:
    """The chain in one range on embedded Spark, also if the test that needs it first is for another Spark."""
    homes = tmp_path_factory.mktemp("homes")
    workshop = Workshop(homes / "one-range", lambda: spark)
    tally = workshop.land_synthetic(SPEC)
    with _embedded():
        workshop.build_rates(EASTER)
        shutil.copytree(workshop.settings.home, homes / "with-rates")
        workshop.build_all(EASTER)
    return Built(workshop, tally, homes / "with-rates")


@contextmanager
def _embedded() -> Iterator[None]:
    mode = os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    try:
        yield
    finally:
        if mode is not None:
            os.environ["SPARK_CONNECT_MODE_ENABLED"] = mode


def test_every_line_becomes_what_the_tally_says(built: Built) -> None:
    """Received, published, quarantined, deduplicated, superseded: exactly, on every event day."""
    raw, bronze, rejects, fact = (
        {day: state.content for day, state in built.workshop.states(table).items() if state.content}
        for table in ("raw_sales", "bronze_sales", "quarantine_sales", "fact_sales_transactions")
    )
    expected = {day: found.lines | Counter(received=found.received) for day, found in built.tally.by_event_day.items()}
    assert {
        day: Counter(
            received=int(raw[day].metrics["received"] or 0),
            published=fact[day].rows,
            quarantined=rejects[day].rows,
            deduplicated=int(bronze[day].metrics["deduplicated"] or 0),
            superseded=int(bronze[day].metrics["superseded"] or 0),
        )
        for day in EASTER
    } == expected
    assert {name for name, count in built.tally.made.defects.items() if count != 14} == set()


def assert_a_day_of_a_computed_table_is_one_file(lakehouse: Path) -> None:
    for table in ("bronze_sales", "quarantine_sales", "fact_sales_transactions", "fact_daily_revenue"):
        log = read_log(Storage(str(lakehouse)), table, DeltaTable(lakehouse / table).version())
        files = {day: len(found) for day, found in log.of_days(EASTER).items()}
        assert set(files.values()) == {1}, (table, files)


def test_amounts_are_published_to_the_cent(built: Built) -> None:
    """By day and currency: a version or a duplicate that wrongly won or was lost shows here even if counts agree."""
    rows = built.workshop.read("fact_sales_transactions", columns=["day", "currency", "sales_value"])
    sums: dict[object, Counter[str]] = {day: Counter() for day in EASTER}
    for day, currency, amount in zip(*(rows[c].tolist() for c in ("day", "currency", "sales_value")), strict=True):
        sums[day][currency] += int(Decimal(amount).scaleb(2))
    assert sums == {day: expected.sales for day, expected in built.tally.by_event_day.items()}


def test_every_rejected_line_is_in_quarantine_with_its_reasons(built: Built) -> None:
    """File and line are what the source's owner needs; each reason names the field that the defect spoiled."""
    rows = built.workshop.read("quarantine_sales")
    found = {
        (path, line): list(reasons)
        for path, line, reasons in zip(
            *(rows[c].tolist() for c in ("source_file", "source_line", "reasons")), strict=True
        )
    }
    assert found.keys() == {(reject.path, reject.line) for reject in built.tally.rejected}
    for reject in built.tally.rejected:
        reasons = found[reject.path, reject.line]
        assert reasons and all(reason.startswith(_REASONS[reject.defect]) for reason in reasons), (reject, reasons)


def test_what_the_schema_does_not_know_is_kept(built: Built) -> None:
    """A field that joins the contract later can be recovered from history."""
    rescued = built.workshop.read("raw_sales", columns=["rescued"])["rescued"].dropna().tolist()
    assert len(rescued) == 14 and all("loyalty_tier" in text and "till" in text for text in rescued)


def test_spark_connect_gives_the_same_rows(built: Built, tmp_path: Path, connect_spark: SparkSession) -> None:
    """Checksums of every day of every table, over the chain in one range.

    A day is one file for any number of shuffle partitions, and not because Spark has put small ones together.
    """
    scattered = {"spark.sql.shuffle.partitions": "7", "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {name: str(connect_spark.conf.get(name)) for name in scattered}
    for name, value in scattered.items():
        connect_spark.conf.set(name, value)
    try:
        workshop = _assert_same_rows(built, tmp_path, connect_spark)
    finally:
        for name, value in before.items():
            connect_spark.conf.set(name, value)
    assert_a_day_of_a_computed_table_is_one_file(workshop.settings.lakehouse)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_cluster_gives_the_same_rows(built: Built, tmp_path: Path, cluster_spark: SparkSession) -> None:
    """The same story on a master and two workers: nothing rests on driver and executor being one process."""
    _assert_same_rows(built, tmp_path, cluster_spark)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_executors_of_a_cluster_judge_the_files_of_their_days(
    built: Built, tmp_path: Path, cluster_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a bucket has more than this process should read: the same query, day by day, on other machines."""
    asked: list[DayFiles] = []

    def counting(*given: Any) -> Any:
        asked.append(given[3])
        return measure_on_executors(*given)

    def far(storage: Storage, *given: Any, **wanted: Any) -> Any:
        return measure_files(InAStore(storage.root), *given, **wanted)

    monkeypatch.setattr(stage, "measure_files", far)
    monkeypatch.setattr(measure, "MOST_BYTES_FROM_A_BUCKET", 0)
    monkeypatch.setattr(measure, "measure_on_executors", counting)
    _assert_same_rows(built, tmp_path, cluster_spark)
    judged = {file.path.split("/")[0] for days in asked for files in days.values() for file in files}
    # Rates were built before; no day of a week or a month is asked for.
    assert judged == {
        *("raw_products", "bronze_products", "raw_sales", "bronze_sales", "quarantine_sales"),
        *("fact_sales_transactions", "fact_daily_revenue"),
    }


@pytest.mark.long
@pytest.mark.timeout(900)
def test_executors_that_die_while_days_are_built_and_judged_change_nothing(
    built: Built, tmp_path: Path, cluster_spark: SparkSession
) -> None:
    """One after the other: their tasks are done again, and what the first attempts left is no row."""
    with _dying_executors(most=5) as killed:
        _assert_same_rows(built, tmp_path, cluster_spark)
    print(f"{len(killed)} executors killed")
    assert len(killed) >= 3


@contextmanager
def _dying_executors(most: int) -> Iterator[list[int]]:
    """Kills the executors of this process's cluster, each when it has worked for a while; gives their numbers."""
    killed: list[int] = []
    is_over = threading.Event()

    def kill() -> None:
        while not is_over.wait(0.2) and len(killed) < most:
            for each in psutil.Process().children(recursive=True):
                if "CoarseGrainedExecutorBackend" in " ".join(_command(each)) and _worked_seconds(each) > _WORKS_FOR:
                    each.kill()
                    killed.append(each.pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        is_over.set()
        killer.join()


def _worked_seconds(process: psutil.Process) -> float:
    try:
        return float(sum(process.cpu_times()[:2]))
    except psutil.Error:
        return 0.0


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has ended since it was listed
        return []


def _assert_same_rows(built: Built, home: Path, spark: SparkSession) -> Workshop:
    workshop = built.another(home, spark)
    workshop.build_all(EASTER)
    assert workshop.contents() == built.workshop.contents()
    return workshop


@pytest.mark.long
def test_runs_of_two_days_at_once_give_the_same_rows(
    built: Built, tmp_path: Path, connect_spark: SparkSession, connect_settings: Settings
) -> None:
    """A range that is fanned out on the shared server: each run has a session of its own, and none waits for it.

    Late rows reach days of the other run, as in day by day; a last run over the range catches up.
    """
    workshop = built.another(tmp_path, connect_spark)
    with ThreadPoolExecutor() as runs:
        list(runs.map(lambda days: _run_in_its_own_session(workshop, connect_settings, days), EASTER.split(2)))
    workshop.build_all(EASTER)
    assert workshop.contents() == built.workshop.contents()


def _run_in_its_own_session(shared: Workshop, server: Settings, days: DayRange) -> None:
    with spark_session(server, "run") as session:
        builder = Builder.from_settings(shared.settings, CATALOG, lambda: session)
        for table in ("raw_products", "bronze_products", "raw_sales", "bronze_sales"):
            builder.build(CATALOG.step(table), list(days), run=RunInfo(f"run-{days.first}"))


@pytest.mark.long
def test_day_by_day_gives_the_same_rows(built: Built, tmp_path: Path, spark: SparkSession) -> None:
    """As a nightly batch would: late rows make earlier days stale, and a last run over the range catches up."""
    workshop = built.another(tmp_path, spark)
    for day in EASTER:
        workshop.build("raw_sales", [day])
        workshop.build("bronze_sales", [day])
        workshop.build_products(DayRange.of(day))
    stale = [built.day for built in workshop.build("bronze_sales", EASTER).days if not built.reused]
    assert stale, "the last days brought rows for the first ones"
    for table in ("fact_sales_transactions", "fact_daily_revenue"):
        workshop.build(table, EASTER)
    assert workshop.contents() == built.workshop.contents()


@pytest.mark.long
def test_arrivals_in_reverse_give_the_same_rows(
    built: Built, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest files first, and three days a chunk: no row wins because it came last."""
    monkeypatch.setattr(decide, "_MOST_DAYS", 3)
    workshop = built.another(tmp_path, spark)
    for part in reversed(EASTER.split(2)):
        workshop.build("raw_sales", part)
    workshop.build_all(EASTER)
    assert workshop.contents() == built.workshop.contents()
