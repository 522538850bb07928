"""A contest is fair: the same options for every peer, an order that changes, and no time before tables are equal."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.days import DayRange
from backfill_assets.settings import Settings
from backfill_assets.spark.class_archive import JAVA_OPTIONS, archive_file, empty_folder
from backfill_assets.spark.session import profile
from benchmarks.backfill import __main__ as bench
from benchmarks.backfill import contest as contests
from benchmarks.backfill import data as data_module
from benchmarks.backfill import peers, rebuild, without_spark
from benchmarks.backfill.contenders import sqlmesh_rebuild, wide
from benchmarks.backfill.contest import Contender, Result, contest
from benchmarks.backfill.data import Data
from benchmarks.backfill.report import Goal, Line
from benchmarks.backfill.timed import Timed
from benchmarks.backfill.totals import Totals
from benchmarks.wide_dataset import wide_dataset

DAYS = DayRange(date(2017, 3, 1), date(2017, 3, 6))
RIGHT = Totals({"fact_sales_transactions": 10}, Decimal(7), "equal", "hashes")


def _run() -> Timed:
    return Timed(seconds=1, cpu_seconds=1, peak_mib=100, load=0.5, jvm=True)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the contenders in the order in which they ran; their tables are what :func:`_contender` says."""
    monkeypatch.setattr(contests, "of_tables", lambda tables, _, **__: tables)
    return []


def _contender(played: list[str], name: str, found: Totals = RIGHT) -> Contender:
    def run() -> Timed:
        played.append(name)
        return _run()

    return Contender(name, run, lambda: found)  # type: ignore[arg-type,return-value]


def test_each_round_begins_with_another_contender(played: list[str]) -> None:
    result = contest([_contender(played, name) for name in "abc"], DAYS, 3)
    assert "".join(played) == "abcbcacab"
    assert list(result.runs) == ["a", "b", "c"]


def test_no_time_is_printed_of_a_round_whose_tables_differ(
    played: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = _contender(played, "b", replace(RIGHT, digest="other"))
    with pytest.raises(ValueError, match="b computed"):
        contest([_contender(played, "a"), wrong], DAYS, 1)
    assert "1.0 s" not in capsys.readouterr().err


def test_hashes_are_compared_where_both_have_them(played: list[str]) -> None:
    without = _contender(played, "DuckDB", replace(RIGHT, hashes=""))
    assert contest([_contender(played, "a"), without], DAYS, 1).runs.keys() == {"a", "DuckDB"}
    with pytest.raises(ValueError, match="b computed"):
        contest([_contender(played, "a"), _contender(played, "b", replace(RIGHT, hashes="other"))], DAYS, 1)


def test_sqlmesh_starts_with_the_options_and_the_archive_of_this_project(tmp_path: Path) -> None:
    (tmp_path / "jars").symlink_to(Settings.from_environment().jars)
    settings = replace(Settings.from_environment(), jars=tmp_path / "jars")
    empty_folder(settings).mkdir(parents=True)
    archive_file(settings).touch()
    given = peers.spark_options(settings)
    options = sqlmesh_rebuild.spark_config(tmp_path / "project", given)
    java = options[JAVA_OPTIONS]
    assert profile(replace(settings, spark_profile="local"))[JAVA_OPTIONS] in java
    assert f"-XX:SharedArchiveFile={archive_file(settings)}" in java
    assert "-Dderby.system.home=" in java
    own = {JAVA_OPTIONS, "spark.sql.warehouse.dir", "spark.hadoop.javax.jdo.option.ConnectionURL"}
    assert {key: value for key, value in options.items() if key not in own} == {
        key: value for key, value in given.items() if key not in own
    }


def test_goals_are_held_against_the_sizes_that_they_were_set_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(data: Data, rounds: int) -> list[Line]:
        return [Line("a ratio", 0.9, "ratio", goal=Goal(1.15))]

    full, small = bench.Size(90, 50_000, 3), bench.Size(6, 2_000, 1)
    monkeypatch.setitem(bench.SCENARIOS, "rebuild", bench.Scenario(measure, full, small))
    assert [line.verdict for line in bench._measure("rebuild", full)] == ["reached"]
    assert [(line.verdict, line.goal) for line in bench._measure("rebuild", small)] == [("", None)]
    assert [line.verdict for line in bench._measure("rebuild", replace(full, rounds=1))] == ["reached"]


def test_fields_of_many_columns_are_those_of_the_dataset() -> None:
    """The peers' queries are made of a list that their environment can import."""
    source = wide_dataset(wide.COLUMNS).steps[0].source
    assert source
    assert {name: source.type_of(name).replace(" ", "") for name in source.fields} == wide.FIELDS
    assert len(wide.NUMBERS) == 16 and wide_dataset(wide.COLUMNS).steps[0].name == wide.RAW


def test_a_skewed_day_has_ten_times_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "CACHE", tmp_path)
    monkeypatch.setattr(Data, "run", lambda *_, **__: None)
    made = data_module.skewed(5, 200)
    lines = {
        path.parent.name: len(gzip.decompress(path.read_bytes()).splitlines())
        for path in sorted((made.landing / "sales").glob("*/*"))
    }
    assert len(lines) == 5 and 1_990 < lines["2017-03-03"] < 2_030
    assert all(190 < count < 215 for day, count in lines.items() if day != "2017-03-03")


@pytest.mark.protocol
def test_publishing_and_rolling_back_are_measured() -> None:
    lines = without_spark._publishing(Data.of(2), rounds=1, rows=3)
    assert [line.what.split(" 2 days")[0] for line in lines] == ["publish", "roll back"]


def test_day_by_day_has_no_goal_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {name: [_run()] for name in (rebuild.OURS, rebuild.BY_HAND, rebuild.BY_DAY)}
    monkeypatch.setattr(rebuild, "contest", lambda *_: Result(runs, RIGHT, {}))
    goals = [line.goal for line in rebuild.rebuild(Data.of(90, 50_000), 1) if line.goal]
    assert goals == [Goal(1.15)]
