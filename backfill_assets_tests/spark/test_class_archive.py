"""Spark starts from an archive of its classes, with the same settings as without one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backfill_assets.settings import Settings
from backfill_assets.spark.archive_classes import archive_classes
from backfill_assets.spark.class_archive import (
    JAVA_OPTIONS,
    archive_file,
    empty_folder,
    start_folder,
    start_options,
)
from backfill_assets.spark.jars import base_jars

_START = """
import json, sys
from backfill_assets.spark.session import open_session
from backfill_assets.settings import Settings
from backfill_assets.spark.archive_classes import archive_classes
java = f"-Xlog:class+load:file={sys.argv[1]} -Dsaid.by=test"
session = open_session(Settings.from_environment(), "test", options={"spark.driver.extraJavaOptions": java})
said, log = (session._jvm.java.lang.System.getProperty(name) for name in ("said.by", "log4j2.configurationFile"))
print(json.dumps({"conf": dict(session.sparkContext.getConf().getAll()), "said": said, "log": log}))
"""


@pytest.fixture
def elsewhere(settings: Settings, tmp_path: Path) -> Settings:
    """A copy of the profiles, and JARs in a folder with a blank in its name; set up, but for the archive itself."""
    shutil.copytree(settings.spark_conf, tmp_path / "spark conf")
    elsewhere = replace(settings, spark_conf=tmp_path / "spark conf", jars=tmp_path / "a folder" / "jars")
    empty_folder(elsewhere).mkdir(parents=True)
    return elsewhere


def test_a_plain_profile_starts_from_an_empty_folder(elsewhere: Settings) -> None:
    """Java archives nothing from a class path that has a folder of files on it."""
    folder = start_folder(elsewhere)
    assert folder.is_dir()
    assert list(folder.iterdir()) == []


def test_what_spark_read_from_the_folder_is_handed_over(elsewhere: Settings) -> None:
    found = start_options(
        replace(elsewhere, spark_profile="connect"), {JAVA_OPTIONS: "-Dx=y"}, [Path("/a.jar"), Path("/b.jar")]
    )
    assert found["spark.driver.extraClassPath"] == "/a.jar:/b.jar"
    assert found["spark.scheduler.allocation.file"] == str(elsewhere.spark_conf / "connect" / "fairscheduler.xml")
    log = (elsewhere.spark_conf / "connect" / "log4j2.properties").as_uri()
    assert found[JAVA_OPTIONS] == f'"-Dlog4j2.configurationFile={log}" -Dx=y'


def test_an_archive_is_named_where_there_is_one_and_what_callers_say_comes_after_it(elsewhere: Settings) -> None:
    archive_file(elsewhere).touch()
    java = start_options(elsewhere, {JAVA_OPTIONS: "-Xlog:gc"}, [])[JAVA_OPTIONS]
    assert f'"-XX:SharedArchiveFile={archive_file(elsewhere)}"' in java
    assert java.endswith(" -Xlog:gc")


def test_a_profile_with_files_of_its_own_starts_from_them(elsewhere: Settings) -> None:
    """Hadoop's, say: they have to be on the class path."""
    profile = elsewhere.spark_conf / "local"
    (profile / "core-site.xml").write_text("<configuration/>")
    assert start_folder(elsewhere) == profile
    assert start_options(elsewhere, {"spark.master": "local[1]"}, [Path("/a.jar")]) == {"spark.master": "local[1]"}


def test_without_set_up_spark_starts_as_it_always_did(settings: Settings, tmp_path: Path) -> None:
    bare = replace(settings, jars=tmp_path / "jars")
    assert start_folder(bare) == settings.spark_conf / "local"
    assert start_options(bare, {"spark.master": "local[1]"}, [Path("/a.jar")]) == {"spark.master": "local[1]"}


def test_a_class_path_that_was_set_stays(elsewhere: Settings) -> None:
    found = start_options(elsewhere, {"spark.driver.extraClassPath": "/mine.jar"}, [Path("/a.jar")])
    assert found["spark.driver.extraClassPath"] == "/a.jar:/mine.jar"


@pytest.mark.spark
def test_spark_takes_its_classes_from_the_archive(settings: Settings, tmp_path: Path) -> None:
    """Nearly all that a start loads; and the profile's settings are in force."""
    log = tmp_path / "classes.txt"
    command = [sys.executable, "-c", _START, str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)  # Java has nothing to say beside it
    archived = re.findall(r"\S+ source: shared objects file \(top\)", log.read_text())
    from_jars = re.findall(r"\S+ source: (?:jar|file):\S+", log.read_text())
    assert len(archived) > 50 * len(from_jars)
    assert any("org.apache.spark.sql.delta." in name for name in archived)
    assert told["said"] == "test"
    assert told["log"] == (settings.spark_conf / "local" / "log4j2.properties").as_uri()
    assert told["conf"]["spark.databricks.delta.snapshotPartitions"] == "2"


@pytest.mark.spark
def test_an_archive_of_another_class_path_is_passed_over_in_silence(settings: Settings, tmp_path: Path) -> None:
    """After an upgrade, say: Spark starts as it did without."""
    jars = tmp_path / "jars"
    shutil.copytree(settings.jars, jars)
    other = replace(settings, jars=jars)
    assert all(jar.exists() for jar in base_jars(other))
    empty_folder(other).mkdir(parents=True)
    archive_file(other).symlink_to(archive_file(settings))
    command = [sys.executable, "-c", _START, str(tmp_path / "log")]
    elsewhere = {**os.environ, "BACKFILL_JARS": str(jars)}
    done = subprocess.run(command, env=elsewhere, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["conf"]["spark.app.name"] == "test"
    assert "(top)" not in (tmp_path / "log").read_text()


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_package_makes_an_archive_of_a_day_of_its_own(settings: Settings, tmp_path: Path) -> None:
    """With nothing of the examples; and it is what the next Spark starts from."""
    jars = tmp_path / "jars"
    shutil.copytree(settings.jars, jars)
    made = archive_classes(replace(settings, jars=jars))
    assert made is not None and made.stat().st_size > 50_000_000
    log = tmp_path / "classes.txt"
    elsewhere = {**os.environ, "BACKFILL_JARS": str(jars)}
    subprocess.run([sys.executable, "-c", _START, str(log)], env=elsewhere, capture_output=True, check=True)
    said = log.read_text()
    archived = re.findall(r"\S+ source: shared objects file \(top\)", said)
    assert len(archived) > 50 * len(re.findall(r"\S+ source: (?:jar|file):\S+", said))
