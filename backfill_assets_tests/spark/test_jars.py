from __future__ import annotations

import hashlib
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.jars import LEFT_OUT, locked_jars, read_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_with_one_jar(folder: Path) -> Settings:
    """A lock of one JAR, which is in the JAR folder as locked."""
    (folder / "jars").mkdir()
    (folder / "jars" / "thing-1.0.jar").write_bytes(b"content")
    (folder / "jars.lock").write_text(f"# why\n\norg.some:thing:1.0 {hashlib.sha256(b'content').hexdigest()}\n")
    return replace(Settings.at(folder), spark_conf=folder, jars=folder / "jars")


def test_the_locked_jars_are_handed_to_spark_by_path(tmp_path: Path) -> None:
    """With packages instead of paths, every session start would ask the network again."""
    assert locked_jars(settings_with_one_jar(tmp_path)) == [tmp_path / "jars" / "thing-1.0.jar"]


@pytest.mark.parametrize("damaged", [b"something else", None])
def test_a_damaged_or_missing_jar_is_named_before_spark_starts(tmp_path: Path, damaged: bytes | None) -> None:
    """Spark only warns about a JAR it cannot find, and fails minutes later with a missing class."""
    settings = settings_with_one_jar(tmp_path)
    jar = settings.jars / "thing-1.0.jar"
    jar.unlink() if damaged is None else jar.write_bytes(damaged)
    with pytest.raises(LakehouseUnusable, match=r"thing-1\.0\.jar[\s\S]*backfill doctor --fix"):
        locked_jars(settings)


def test_a_damaged_lock_is_named(tmp_path: Path) -> None:
    """A merge conflict in the lock must not be read as a shorter list of JARs."""
    (tmp_path / "jars.lock").write_text("<<<<<<< ours\norg.some:thing:1.0 00\n")
    with pytest.raises(LakehouseUnusable, match="cannot be read"):
        read_lock(tmp_path / "jars.lock")


@pytest.mark.parametrize(("group", "package"), [("io.delta", "delta-spark"), ("org.apache.spark", "pyspark")])
def test_the_jars_are_of_the_release_that_is_installed(group: str, package: str) -> None:
    """A Python package and its JARs have to be raised together."""
    from importlib.metadata import version

    lock = read_lock(Settings.from_environment({}).spark_conf / "jars.lock")
    assert {jar.version for jar in lock if jar.group == group} == {version(package)}


def test_nothing_that_is_locked_is_left_out_when_it_is_fetched() -> None:
    """Ivy's patterns also hit what is asked for by name: its JAR would be missing on a fresh machine alone."""
    settings = Settings.from_environment({})
    for name, patterns in LEFT_OUT.items():
        names = [f"{jar.group}:{jar.artifact}" for jar in read_lock(settings.spark_conf / name)]
        assert [each for each in names if any(fnmatch(each, pattern) for pattern in patterns.split(","))] == []


@pytest.mark.spark
def test_spark_has_the_reader_of_kafka(spark: SparkSession) -> None:
    """Its schema comes from the connector; no broker is asked."""
    messages = spark.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "sales")
    assert {"key", "value", "topic", "partition", "offset", "timestamp"} <= set(messages.load().columns)
