from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.jars import locked_jars, read_lock


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
    with pytest.raises(LakehouseUnusable, match=r"thing-1\.0\.jar[\s\S]*make setup"):
        locked_jars(settings)


def test_a_damaged_lock_is_named(tmp_path: Path) -> None:
    """A merge conflict in the lock must not be read as a shorter list of JARs."""
    (tmp_path / "jars.lock").write_text("<<<<<<< ours\norg.some:thing:1.0 00\n")
    with pytest.raises(LakehouseUnusable, match="cannot be read"):
        read_lock(tmp_path / "jars.lock")


def test_the_jars_are_of_the_delta_release_that_is_installed() -> None:
    """The Python package and the JARs have to be raised together."""
    from importlib.metadata import version

    lock = read_lock(Settings.from_environment({}).spark_conf / "jars.lock")
    assert {jar.version for jar in lock} == {version("delta-spark")}
