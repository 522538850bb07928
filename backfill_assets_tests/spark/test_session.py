from __future__ import annotations

import re
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import free_port, start_connect_server
from backfill_assets.spark.session import end_session, open_session, profile


def test_a_profile_that_does_not_exist_is_named(settings: Settings) -> None:
    """Otherwise Spark starts without Delta, and the first write fails with a missing class."""
    with pytest.raises(LakehouseUnusable, match="cluster7"):
        profile(replace(settings, spark_profile="cluster7"))


def test_a_profile_is_read_as_java_reads_properties(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    lines = ["# nothing", "! nothing", "", "a.b   -Dx=1 -Dy=2", "c=d", "e : f", "  g = h i "]
    (tmp_path / "mine" / "spark-defaults.conf").write_text("\n".join(lines))
    found = profile(replace(settings, spark_conf=tmp_path, spark_profile="mine"))
    assert found == {"a.b": "-Dx=1 -Dy=2", "c": "d", "e": "f", "g": "h i"}


@pytest.mark.parametrize("name", ["local", "connect", "standalone", "yarn", "kubernetes"])
def test_every_profile_keeps_what_correctness_rests_on(settings: Settings, name: str) -> None:
    """Days are UTC days, and publishing adds whole files by path: no deletion vectors, no row ids.

    A day needs more generated classes than the hundred that Spark keeps by itself, and of a condition on k columns that
    get new names Spark would infer 2^k.
    """
    conf = profile(replace(settings, spark_profile=name))
    delta = "spark.databricks.delta.properties.defaults"
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert conf[f"{delta}.columnMapping.mode"] == "none"
    assert {conf[f"{delta}.enable{feature}"] for feature in ("DeletionVectors", "RowTracking", "TypeWidening")} == {
        "false"
    }
    assert int(conf["spark.sql.codegen.cache.maxEntries"]) >= 1000
    assert conf["spark.sql.codegen.useIdInClassName"] == "false"
    assert conf["spark.sql.constraintPropagation.enabled"] == "false"
    on_this_machine = name in ("local", "connect", "standalone")
    assert conf.get("spark.driver.bindAddress") == ("127.0.0.1" if on_this_machine else None)
    assert conf.get("spark.scheduler.mode") == (None if name == "local" else "FAIR")


@pytest.mark.parametrize("name", ["connect", "standalone", "yarn", "kubernetes"])
def test_sessions_of_a_shared_server_take_turns(settings: Settings, name: str) -> None:
    """Connect cannot name a pool: all are in ``default``, which is first in, first out unless its file says FAIR."""
    pools = (settings.spark_conf / name / "fairscheduler.xml").read_text()
    found = re.findall(r'<pool name="(\w+)">\s*<schedulingMode>(\w+)</schedulingMode>', pools)
    assert found == [("default", "FAIR")]


def test_a_server_that_is_not_there_is_said_at_once(settings: Settings) -> None:
    """The Connect client would retry for minutes before it says so."""
    nobody = replace(settings, spark_profile="connect", spark_remote=f"sc://127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(LakehouseUnusable, match="Nothing answers"):
        open_session(nobody, "tests")
    assert time.monotonic() - started < 5


def test_delta_round_trip_by_utc_day(each_spark: SparkSession, tmp_path: Path) -> None:
    """What every build rests on, the same on embedded Spark and through Connect."""
    instant = f.to_timestamp_ltz(f.lit("2017-03-01T23:59:59Z"))
    rows = each_spark.range(3).select("id", f.to_date(instant).alias("day"))
    rows.write.format("delta").partitionBy("day").save(str(tmp_path / "t"))
    read = each_spark.read.format("delta").load(str(tmp_path / "t"))
    assert [(str(row["day"]), row["n"]) for row in read.groupBy("day").agg(f.count("*").alias("n")).collect()] == [
        ("2017-03-01", 3)
    ]


def test_new_tables_use_no_feature_that_publishing_cannot_carry(each_spark: SparkSession, tmp_path: Path) -> None:
    """Delta-rs refuses row tracking, and an added file cannot bring a deletion vector: reader 1, writer 2."""
    each_spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    detail = each_spark.sql(f"DESCRIBE DETAIL delta.`{tmp_path / 't'}`").first()
    assert detail is not None
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (1, 2)


def test_what_a_dead_client_left_running_is_ended_by_its_session_id(
    connect_settings: Settings, connect_spark: SparkSession
) -> None:
    """Otherwise the orphan of a killed run goes on and commits to the timeline that its next attempt stages in."""
    session_id = str(uuid.uuid4())
    orphan = open_session(connect_settings, "orphan", session_id)
    _warmed_up(orphan)
    died: list[Exception] = []
    running = threading.Thread(target=_run_for_hours, args=(orphan, died))
    running.start()
    time.sleep(2)
    end_session(connect_settings, session_id)
    running.join(timeout=30)
    assert not running.is_alive()
    assert isinstance(died[0], PySparkException)
    end_session(connect_settings, session_id)
    assert connect_spark.range(1).count() == 1, "other sessions of the server must go on"


def _warmed_up(session: SparkSession) -> None:
    """A cold server would still be planning when the seconds that a test waits are over."""
    session.range(10).agg(f.sum(f.hash("id"))).collect()


def _run_for_hours(session: SparkSession, died: list[Exception]) -> None:
    try:
        session.range(10**14).agg(f.sum(f.hash("id"))).collect()
    except Exception as error:
        died.append(error)


@pytest.mark.spark
def test_a_server_that_cannot_start_says_why(settings: Settings, tmp_path: Path) -> None:
    """The reason is in the server's log, which no one would look for."""
    broken = replace(settings, home=tmp_path)
    with pytest.raises(LakehouseUnusable, match=r"did not come up[\s\S]*spark-connect\.log"):
        start_connect_server(broken, options={"spark.driver.memory": "nonsense"}, timeout_seconds=60)


def test_embedded_spark_starts_without_the_module_that_java_warns_of(spark: SparkSession) -> None:
    """Its warning stood in the output of every command."""
    beans = getattr(spark, "_jvm").java.lang.management.ManagementFactory  # noqa: B009
    options = list(beans.getRuntimeMXBean().getInputArguments())
    assert any(option.startswith("--add-opens") for option in options)
    assert not any("incubator" in option for option in options)


def test_workers_run_the_python_of_this_environment(each_spark: SparkSession) -> None:
    """The system's Python has none of the packages, and may be another version, which Spark refuses."""
    import pyarrow as pa

    def interpreter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    found = each_spark.range(1).mapInArrow(interpreter, "python string").collect()
    assert {row["python"] for row in found} == {sys.executable}
