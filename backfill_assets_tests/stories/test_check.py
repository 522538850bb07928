"""A declaration is tried on the first file that landed, before anything is built, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import land_readings
from backfill_assets.landing import declaration_trial
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.dataset import Dataset
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.landing.test_landing_files import damage
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.toll_passages import FIRST, NUMBERED, SOURCE, WITHOUT_KEY, passage
from backfill_assets_tests.strategies.landed_sales import land
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def backfill(tmp_path: Path, spark: SparkSession, type_on: TypeOn) -> Backfill:
    return type_on(Workshop(tmp_path / "home", lambda: spark))


def land_passages(backfill: Backfill, passages: Sequence[Mapping[str, str] | str], day: date = FIRST) -> None:
    land(backfill.home / "landing", "tolls", str(day), "a", passages)


def test_a_sound_declaration_and_a_sound_file(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would be quarantined, every gate would pass, no lakehouse is made; and it says where it is."""
    said: list[str] = []
    monkeypatch.setattr("backfill_assets.cli.verbs.dataset.report_progress", said.append)
    land_readings(DayRange.of(date(2016, 2, 15)), backfill.home / "landing")
    before = sorted(backfill.home.rglob("*"))
    told = backfill.json("dataset", "check", "sea_temperatures")
    (file,) = told["files"]
    assert (told["problems"], file["good"], file["rows"], file["quarantined"]) == ([], True, 48, 0)
    assert sorted(backfill.home.rglob("*")) == before
    words = "\n".join(said)
    assert "bronze_sea_temperatures: comparing its columns with the contract" in words
    assert "reading sea_temperatures/2016-02-15/" in words
    assert "judging raw_sea_temperatures" in words and "judging bronze_sea_temperatures, " in words
    assert "Did you mean sea_temperatures?" in backfill("dataset", "check", "sea_temperature", exit_code=1).stderr


def test_every_row_of_a_wrong_declaration(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many, why, and where the first of them is: a source that writes moments in another form."""
    declare(monkeypatch, NUMBERED)
    assert "No line has landed for tolls" in backfill("dataset", "check", "tolls", exit_code=1).stderr
    land_passages(backfill, [], date(2020, 5, 29))
    wrong = [{**passage(second), "sent_at": "30.05.2020 23:59"} for second in range(12)]
    land_passages(backfill, [*wrong, {**passage(0), "axles": "1"}])
    told = backfill("dataset", "check", "tolls", exit_code=1).stdout
    assert "tolls/2020-05-30/a.jsonl.gz: 13 of 13 rows would be quarantined, because:" in told
    assert "tolls: 3 steps and 4 tables are declared soundly." in told
    for words in ("sent_at: is not a timestamp", "sent_at: '30.05.2020 23:59' is not a timestamp", "\t1\t13\t"):
        assert words in told
    assert told.index("sent_at: is not a timestamp") < told.index("axles: not greater than or equal to 2")


def test_a_key_that_is_none_in_a_long_file(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gates of the day are judged as well, on as many lines as are read in seconds."""
    declare(monkeypatch, WITHOUT_KEY)
    monkeypatch.setattr(declaration_trial, "MOST_LINES", 3)
    land_passages(backfill, [passage(0), passage(1), passage(1), "broken"])
    told = backfill("dataset", "check", "tolls", exit_code=1).stdout
    assert "0 of 3 rows would be quarantined. The first 3 rows were read." in told
    assert "bronze_tolls\t2020-05-30\tfew_duplicates\t1 of 3 rows give way" in told
    assert "for example tolls/2020-05-30/a.jsonl.gz:2 and tolls/2020-05-30/a.jsonl.gz:3" in told


def test_a_damaged_file_is_named(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of its rows can be read: they say nothing about the declaration."""
    declare(monkeypatch, NUMBERED)
    land_passages(backfill, [passage(number) for number in range(2_000)])
    damage(backfill.home / "landing" / "tolls" / str(FIRST) / "a.jsonl.gz")
    said = backfill("dataset", "check", "tolls", exit_code=1)
    assert re.search(r"tolls/2020-05-30/a\.jsonl\.gz: (undecodable|truncated) gzip.* at byte", said.stderr)
    assert "Land the whole file again" in said.stderr and "would be quarantined" not in said.stdout


def test_a_transform_that_gives_other_columns(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found without a row, in words: another type, another name, a table that is not read."""

    def changed(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        given = inputs["bronze_tolls"].selectExpr("1 AS passages", "axles AS wheels", "day")
        return {"report_tolls": given}

    def unread(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        return {"report_tolls": inputs["bronze_toll"]}

    def unknown(inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        return {"report_tolls": inputs["bronze_tolls"].selectExpr("pasages")}

    told = []
    for transform in (changed, unread, unknown):
        with pytest.MonkeyPatch.context() as patched:
            declare(patched, _with_report(NUMBERED, transform))
            told += backfill.json("dataset", "check", "tolls", exit_code=1)["problems"]
    assert told[:3] == [
        "report_tolls, version v1: report_tolls.passages is a int, its contract declares a bigint.",
        "report_tolls, version v1: report_tolls has no column axles, which its contract ReportTolls declares.",
        "report_tolls, version v1: report_tolls.wheels is not in its contract ReportTolls.",
    ]
    assert told[3] == "report_tolls, version v1: it uses 'bronze_toll', which is not among its Reads."
    assert "pasages" in told[4]


def _with_report(dataset: Dataset, transform: Any) -> Dataset:
    *landed, report = dataset.steps
    versions = (replace(report.versions[0], transform=transform),)
    return replace(dataset, steps=(*landed, replace(report, versions=versions)))


def test_the_first_file_with_a_line_in_it(tmp_path: Path) -> None:
    """A day on which nothing happened says nothing about the declaration."""
    for day, lines in (("2020-05-29", []), ("2020-05-30", [""]), ("2020-05-31", [passage(0)])):
        land(tmp_path, "tolls", day, "a", lines)
    assert declaration_trial.first_file(LandingZone(tmp_path), SOURCE) == (
        date(2020, 5, 31),
        "tolls/2020-05-31/a.jsonl.gz",
    )
