"""What VACUUM may do to published data: what is protected, and what refuses when files are gone all the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.compact import compact
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.protocol.lake import D1, D2, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_LISTING = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
WITHOUT_MERCY, LITE_WITHOUT_MERCY = "VACUUM delta.`{}` RETAIN 0 HOURS", "VACUUM delta.`{}` LITE RETAIN 0 HOURS"


@pytest.fixture
def vacuuming(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark that lists folders in two tasks: VACUUM starts 10,000 of them otherwise, even for few files."""
    spark.conf.set(_LISTING, "2")
    yield spark
    spark.conf.unset(_LISTING)


@pytest.fixture
def merciless(vacuuming: SparkSession) -> Iterator[SparkSession]:
    """Spark with its own guard against short retentions switched off."""
    vacuuming.conf.set(_CHECK, "false")
    yield vacuuming
    vacuuming.conf.set(_CHECK, "true")


def _history(lake: Lake) -> Publication:
    """Published, published again, appended to, compacted; and one more publication staged."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}, "u": {D1: ["x"]}})
    lake.append("a1", "t", {D1: ["a2"]})
    compact(lake.publisher(), "t", [D1], id="c1")
    lake.publish("p2", {"t": {D1: ["A"]}, "u": {D1: ["X"]}})
    return lake.request("p3", {"t": {D2: ["B"]}})


def _vacuum(spark: SparkSession, lake: Lake, table: str, *vacuums: str) -> None:
    """Each costs as much as a build: one table stands for the others."""
    for vacuum in vacuums:
        spark.sql(vacuum.format(lake.storage.uri(table))).collect()


def _spark_rows(spark: SparkSession, lake: Lake, table: str) -> dict[date, list[str]]:
    found: dict[date, list[str]] = {}
    for row in spark.read.format("delta").load(lake.storage.uri(table)).collect():
        found.setdefault(row["day"], []).append(row["name"])
    return {day: sorted(rows) for day, rows in sorted(found.items())}


def test_vacuum_within_its_retention_harms_nothing(vacuuming: SparkSession, lake: Lake) -> None:
    """Main keeps replaced files as long as the rollback window: published, staged and earlier states all survive."""
    staged = _history(lake)
    _vacuum(vacuuming, lake, "t", "VACUUM delta.`{}`", "VACUUM delta.`{}` LITE")
    assert isinstance(lake.publisher().publish(staged), Published)
    assert _spark_rows(vacuuming, lake, "t") == {D1: ["A"], D2: ["B"]}
    roll_back(lake.publisher(), "p3", id="undo3", steps=())
    roll_back(lake.publisher(), "p2", id="undo2", steps=())
    assert _spark_rows(vacuuming, lake, "t") == lake.rows("t") == {D1: ["a", "a2"], D2: ["b"]}
    assert _spark_rows(vacuuming, lake, "u") == lake.rows("u") == {D1: ["x"]}
    roll_back(lake.publisher(), "c1", id="undo1", steps=())
    assert _spark_rows(vacuuming, lake, "t") == {D1: ["a", "a2"], D2: ["b"]}


def test_retention_zero_is_refused_by_spark_unless_its_guard_is_off(vacuuming: SparkSession, lake: Lake) -> None:
    """The table's own retention is the rollback window, so a shorter one needs an explicit override."""
    _history(lake)
    properties = lake.table("t").metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 30 days"
    for vacuum in (WITHOUT_MERCY, LITE_WITHOUT_MERCY):
        with pytest.raises(Exception, match="retention"):
            vacuuming.sql(vacuum.format(lake.storage.uri("t"))).collect()


def test_a_plain_vacuum_without_retention_leaves_timelines_alone(merciless: SparkSession, lake: Lake) -> None:
    """Published data lives below a hidden name, which a plain VACUUM does not walk."""
    _history(lake)
    _vacuum(merciless, lake, "t", WITHOUT_MERCY)
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert _spark_rows(merciless, lake, "t") == {D1: ["a", "a2"], D2: ["b"]}
    assert _spark_rows(merciless, lake, "u") == {D1: ["x"]}


def test_what_a_lite_vacuum_without_retention_took_is_refused_by_name(merciless: SparkSession, lake: Lake) -> None:
    """It goes by the log, and finds replaced files wherever they are. What is published and what is staged survive;
    the undo is refused, naming a file, and changes neither of its tables, although one has lost nothing."""
    staged = _history(lake)
    before = lake.publisher().log.find_prepared("p2")
    assert before is not None
    lost = {file.path for file in before[0].before["t"][D1].files}
    _vacuum(merciless, lake, "t", LITE_WITHOUT_MERCY)
    assert _spark_rows(merciless, lake, "t") == {D1: ["A"], D2: ["b"]}
    with pytest.raises(PublicationRefused) as refused:
        roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert any(path in str(refused.value) for path in lost)
    assert _spark_rows(merciless, lake, "t") == {D1: ["A"], D2: ["b"]}
    assert _spark_rows(merciless, lake, "u") == {D1: ["X"]}
    assert not lake.head.open
    assert isinstance(lake.publisher().publish(staged), Published)
    assert _spark_rows(merciless, lake, "t") == {D1: ["A"], D2: ["B"]}


def test_a_vacuumed_timeline_is_not_published(merciless: SparkSession, lake: Lake) -> None:
    """A timeline must not be vacuumed; when it was, after it was staged anew, its older files are missed."""
    staged = lake.request("p1", {"t": {D1: ["a"]}})
    timeline = f"t/{staged.tables[0].days[0].adds[0].path.rsplit('/day=', 1)[0]}"
    lake.table(timeline).delete()
    _vacuum(merciless, lake, timeline, WITHOUT_MERCY)
    assert isinstance(lake.publisher().publish(staged), Conflict)
    assert not lake.head.open


def test_the_log_survives_optimize_and_vacuum_of_its_own(merciless: SparkSession, lake: Lake) -> None:
    """By list and by log: entries and the index are hidden, and what LITE takes is read through the table.

    Without mercy, so also within its retention.
    """
    for number in range(35):
        lake.publish(f"p{number}", {"t": {D1: [f"a{number}"]}})
    merciless.sql(f"OPTIMIZE delta.`{lake.storage.uri(LOG_TABLE)}`").collect()
    since = lake.head.since
    _vacuum(merciless, lake, LOG_TABLE, WITHOUT_MERCY)
    assert not lake.storage.missing(since)
    _vacuum(merciless, lake, LOG_TABLE, LITE_WITHOUT_MERCY)
    assert lake.storage.missing(since)
    log = lake.publisher().log
    assert log.head().state.index
    assert log.day_states(log.head())[TableDay("t", D1)].publication == "p34"
    roll_back(lake.publisher(), "p34", id="undo", steps=())
    assert lake.rows("t") == {D1: ["a33"]}
