"""Readers who pin see all tables of a publication or none; looking changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.plans import plan_ids
from backfill_assets.publish.log import anything_published
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.state.damage import free_bytes
from backfill_assets.state.history import history
from backfill_assets.state.observed import observe
from backfill_assets.state.reading import (
    PublishedTable,
    published_day,
    published_versions,
    read_published,
)
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.small_lakehouse import SmallLakehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY, NEXT = date(2017, 3, 1), date(2017, 3, 2)


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[SmallLakehouse]:
    found = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


def pinned(lakehouse: SmallLakehouse, publication: str | None = None) -> list[list[int]]:
    read = (read_published(lakehouse.storage, table, publication) for table in ("fact", "revenue"))
    return [sorted(each.dataset().to_table().column("id").to_pylist()) for each in read]


def test_a_pinned_reader_sees_the_old_state_while_half_of_a_publication_is_in(lakehouse: SmallLakehouse) -> None:
    """The first table has the new rows already, the second has not: a reader who pins must not see that."""
    lakehouse.publish("first", {"fact": {DAY: [1]}, "revenue": {DAY: [10]}})
    lakehouse.crash("second", {"fact": {DAY: [2]}, "revenue": {DAY: [20]}}, at=CrashPoint.TABLE_COMMITTED)
    assert lakehouse.newest("fact").to_pyarrow_table().column("id").to_pylist() == [2]
    assert lakehouse.newest("revenue").to_pyarrow_table().column("id").to_pylist() == [10]
    assert pinned(lakehouse) == [[1], [10]]
    lakehouse.publisher.recover()
    assert pinned(lakehouse) == [[2], [20]]
    assert pinned(lakehouse, "first") == [[1], [10]]


def test_a_publication_is_read_by_its_uri_and_version_also_when_it_was_rolled_back(lakehouse: SmallLakehouse) -> None:
    """The map of an old entry names versions: Spark's VERSION AS OF and DuckDB get just these two.

    Versions keep their files for the rollback window; what a day held then is told as of then, not of now.
    """
    lakehouse.publish("first", {"fact": {DAY: [1]}, "revenue": {DAY: [10]}})
    lakehouse.publish("second", {"fact": {DAY: [2], NEXT: [3]}, "revenue": {DAY: [20]}})
    now, then = published_day(lakehouse.storage, "fact", DAY), published_day(lakehouse.storage, "fact", DAY, "first")
    assert now and now.publication == "second" and now.content and now.content.checksum == "2"
    assert then and then.publication == "first" and then.content and then.content.checksum == "1"
    assert published_day(lakehouse.storage, "fact", NEXT, "first") is None
    roll_back(lakehouse.publisher, "second", id="undone", steps=CATALOG.steps)
    assert pinned(lakehouse) == [[1], [10]] and pinned(lakehouse, "second") == [[2, 3], [20]]
    found = read_published(lakehouse.storage, "fact")
    assert found.uri == lakehouse.storage.uri("fact")
    assert found.version == published_versions(lakehouse.storage)["fact"] == lakehouse.newest("fact").version()


def test_spark_reads_the_pinned_version_by_the_documented_words(lakehouse: SmallLakehouse, spark: SparkSession) -> None:
    """The recipe of the docstring, in SQL and with a reader's option."""
    lakehouse.publish("first", {"fact": {DAY: [1]}})
    lakehouse.publish("second", {"fact": {DAY: [2], NEXT: [3]}})
    for publication, expected in (("first", [1]), ("second", [2, 3])):
        pin = read_published(lakehouse.storage, "fact", publication)
        by_sql = spark.sql(f"SELECT * FROM delta.`{pin.uri}` VERSION AS OF {pin.version}")  # noqa: S608
        by_option = spark.read.format("delta").option("versionAsOf", pin.version).load(pin.uri)
        for rows in (by_sql, by_option):
            assert sorted(row.id for row in rows.collect()) == expected


def test_what_cannot_be_pinned_is_refused_by_name(lakehouse: SmallLakehouse) -> None:
    """A typo gets the nearest id; an open entry, an unpublished table and a version that is gone their own words."""
    with pytest.raises(InvalidRequest, match="no publication 'first'"):
        published_versions(lakehouse.storage, "first")
    lakehouse.publish("first", {"fact": {DAY: [1]}})
    lakehouse.crash("second", {"fact": {DAY: [2]}}, at=CrashPoint.PREPARED)
    with pytest.raises(InvalidRequest, match="Did you mean first"):
        published_versions(lakehouse.storage, "fist")
    with pytest.raises(InvalidRequest, match="second is still under way"):
        published_versions(lakehouse.storage, "second")
    with pytest.raises(InvalidRequest, match="Nothing was published to revenue when first was published"):
        read_published(lakehouse.storage, "revenue", "first")
    with pytest.raises(LakehouseUnusable, match="fact cannot be read at version 99"):
        PublishedTable("fact", lakehouse.storage.uri("fact"), 99, lakehouse.storage).dataset()


def test_looking_does_not_create_a_lakehouse(lakehouse: SmallLakehouse, tmp_path: Path) -> None:
    """A mistyped path must not become an empty lakehouse that looks fine."""
    assert not anything_published(lakehouse.storage)
    assert published_versions(lakehouse.storage) == {} and history(lakehouse.storage) == []
    observed = observe(lakehouse.storage, ["fact"])
    assert (observed.states, observed.bytes) == ({}, {})
    assert free_bytes(lakehouse.storage) is None and plan_ids(lakehouse.storage) == going(lakehouse.storage) == []
    assert list(tmp_path.iterdir()) == []


def test_half_of_a_publication_is_observed_as_no_foreign_write(lakehouse: SmallLakehouse) -> None:
    """Status would cry foreign write during every publication; a true one is still seen."""
    lakehouse.publish("first", {"fact": {DAY: [1]}, "revenue": {DAY: [10]}})
    lakehouse.crash("second", {"fact": {DAY: [2]}, "revenue": {DAY: [20]}}, at=CrashPoint.TABLE_COMMITTED)
    half = observe(lakehouse.storage, ["fact", "revenue"])
    assert half.open == ("second",)
    assert all(half.newest[table][DAY] == half.states[TableDay(table, DAY)].physical for table in ("fact", "revenue"))
    lakehouse.publisher.recover()
    lakehouse.write_past_the_protocol("fact", DAY, [5])
    whole = observe(lakehouse.storage, ["fact"])
    assert whole.open == () and whole.pinned["fact"][DAY] == whole.states[TableDay("fact", DAY)].physical
    assert whole.newest["fact"][DAY] not in (whole.pinned["fact"][DAY], fingerprints.EMPTY_DAY)


def test_history_shows_every_publication_newest_first(lakehouse: SmallLakehouse) -> None:
    """What replaced what, in which tables, and how it ended."""
    lakehouse.publish("first", {"fact": {DAY: [1], NEXT: [2]}, "revenue": {DAY: [10]}})
    lakehouse.publish("second", {"fact": {DAY: [3, 4]}}, code="v2")
    roll_back(lakehouse.publisher, "second", id="undone", steps=CATALOG.steps)
    lakehouse.crash("third", {"fact": {DAY: [5]}}, at=CrashPoint.PREPARED)
    told = {each.publication: each for each in history(lakehouse.storage)}
    assert list(told) == ["third", "undone", "second", "first"]
    assert [each.outcome for each in told.values()] == ["open", "done", "done", "done"]
    assert told["first"].tables["fact"].days == [DAY, NEXT] and told["first"].rows == 3
    assert told["second"].tables["fact"].replaces == {"first"} and told["second"].tables["fact"].code_versions == {"v2"}
    assert told["undone"].kind == "rollback" and told["undone"].tables["fact"].replaces == {"second"}
    assert told["third"].closed_at is None and told["third"].tables["fact"].replaces == {"undone"}
    assert (told["first"].launched_by, told["first"].run) == ("ana", "0123456789ab")
    lakehouse.write_past_the_protocol("fact", DAY, [9])
    lakehouse.publisher.recover()
    third = history(lakehouse.storage)[0]
    assert third.outcome == "aborted" and third.rows == 0 and "another writer changed fact" in third.reason
