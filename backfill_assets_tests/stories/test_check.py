"""A declaration is tried on the first file that landed, before anything is built, and nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.real import land_readings
from backfill_assets.landing import declaration_trial
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import DayRule
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.model.rules import TotalAgrees, VolumeWithin
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare
from backfill_assets_tests.landing.test_landing_files import damage
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.toll_passages import (
    FIRST,
    NUMBERED,
    SOURCE,
    TOLLS,
    WITHOUT_KEY,
    NumberedPassage,
    passage,
)
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
    for words in ("sent_at: is not a timestamp", "sent_at: '30.05.2020 23:59' is not a timestamp", "\t1\tline 13\t"):
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


@pytest.fixture
def tolls(backfill: Backfill, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LandedDataset]:
    """Declares tolls with a fact and a report, and lands eight passages of one gate, four of them of lorries."""
    land_passages(backfill, [passage(second, axles=2 + 3 * (second % 2)) for second in range(8)])

    def tolls(**rules: tuple[DayRule, ...]) -> LandedDataset:
        declared = replace(TOLLS)
        declared.row("v1", "Passages.")(NumberedPassage)
        declared.table("fact_tolls", rules=rules.get("fact", ()), totals=("axles",))(FactTolls)
        report = rules.get("report", ())
        declared.table("report_axles", rules=report, totals=("passages", "axles"))(ReportAxles)
        return declared

    return tolls


class FactTolls(NumberedPassage):
    """Each passage."""

    occurrence: T.LongType = Field(key=True, description="Among identical ones.")
    day: T.DateType = Field(description="The day.")


class ReportAxles(Contract):
    """The passages of each gate and day."""

    gate: T.StringType = Field(key=True, description="Which gate.")
    passages: T.LongType = Field(made_of="passed_at", description="Vehicles.")
    axles: T.LongType = Field(description="Of all of them.")
    day: T.DateType = Field(description="The day.")


def all_of_them(passages: DataFrame) -> DataFrame:
    return passages


def cars(passages: DataFrame) -> DataFrame:
    return passages.where("axles = 2")


def by_gate(passages: DataFrame) -> DataFrame:
    return passages.groupBy("day", "gate").agg(F.count("*").alias("passages"), F.sum("axles").alias("axles"))


def cars_by_gate(passages: DataFrame) -> DataFrame:
    return by_gate(cars(passages))


def test_a_report_that_loses_half_of_the_rows_is_not_good(
    backfill: Backfill, tolls: Callable[..., LandedDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each version is tried on the rows that landed: what goes in and out of it, and what each rule says of that."""
    agrees = TotalAgrees("passages", "fact_tolls", "rows")
    declared = tolls(report=(agrees, VolumeWithin(1_000, made_of="fact_tolls")))
    declared.version(FactTolls, "v1", "All.", declared.bronze)(all_of_them)
    declared.version(ReportAxles, "v1", "Cars alone.", "fact_tolls")(cars_by_gate)
    declare(monkeypatch, declared.dataset())
    told = backfill.json("dataset", "check", "tolls", exit_code=1)
    assert (told["problems"], told["files"][0]["quarantined"], told["files"][0]["good"]) == ([], 0, False)
    ((table, held, observed),) = [(each["table"], each["held_back_by"], each["observed"]) for each in told["gates"]]
    assert (table, held, observed) == ("report_axles", "total_agrees_passages", "passages adds up to 4")
    flows = {each["table"]: (each["rows_in"], each["rows_out"], each["totals"]) for each in told["versions"]}
    assert flows["fact_tolls"] == (8, 8, "axles 28 of 28")
    assert flows["report_axles"] == (8, 1, "passages 4 of 8; axles 8 of 28")
    assert flows["bronze_tolls"][:2] == (8, 8)
    verdicts = {(each["table"], each["rule"]): each["verdict"] for each in told["rules"]}
    assert verdicts["report_axles", "total_agrees_passages"] == "held back"
    assert verdicts["report_axles", "volume_within"] == verdicts["bronze_tolls", "few_rejected"] == "holds"
    assert "no rule compares axles 8 of 28" in backfill("dataset", "check", "tolls", exit_code=1).stdout

    declared.version(ReportAxles, "v2", "All.", "fact_tolls")(by_gate)
    declare(monkeypatch, declared.dataset())
    told = backfill.json("dataset", "check", "tolls")
    assert told["files"][0]["good"] and told["gates"] == [], "what is current is right"
    tried = {
        (each["version"], each["rule"]): each["verdict"] for each in told["rules"] if each["table"] == "report_axles"
    }
    assert (tried["v1", "total_agrees_passages"], tried["v2", "total_agrees_passages"]) == ("held back", "holds")


def test_rows_that_are_lost_without_a_rule_are_told(
    backfill: Backfill, tolls: Callable[..., LandedDataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fact that has a row for each is wrong; a report has fewer by design, so that it is a warning."""
    declared = tolls()
    declared.version(FactTolls, "v1", "Cars.", declared.bronze)(cars)
    declared.version(ReportAxles, "v1", "By gate.", "fact_tolls")(by_gate)
    declare(monkeypatch, declared.dataset())
    told = backfill("dataset", "check", "tolls", exit_code=1).stdout
    assert "fact_tolls, version v1 loses rows: 4 rows of 8 of bronze_tolls (axles 8 of 28), and no rule" in told
    assert "report_axles, version v1" not in told.split("loses rows")[0]
    declared = tolls()
    declared.version(FactTolls, "v1", "All.", declared.bronze)(all_of_them)
    declared.version(ReportAxles, "v1", "Cars.", "fact_tolls")(cars_by_gate)
    declare(monkeypatch, declared.dataset())
    told = backfill("dataset", "check", "tolls").stdout
    assert "report_axles, version v1 may lose rows: 1 rows of 8 of fact_tolls (passages 4 of 8, axles 8 of 28)" in told


def test_what_other_datasets_give_is_read_as_it_is_published(
    backfill: Backfill, tolls: Callable[..., LandedDataset], monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    """Until then a version that reads it is not tried, and says so; nor is one that cannot be computed of the rows."""

    def with_rates(passages: DataFrame, rates: DataFrame) -> DataFrame:
        return passages.join(rates.where("currency = 'USD'").select("day", "rate"), "day")

    def cast(passages: DataFrame) -> DataFrame:
        return passages.withColumn("axles", F.col("gate").cast("bigint"))

    declared = replace(tolls(), first_day=date(2016, 12, 24))
    declared.row("v1", "Passages.")(NumberedPassage)
    declared.table("fact_tolls")(FactTolls)
    declared.version(FactTolls, "v1", "Cast.", declared.bronze)(cast)
    declared.version(FactTolls, "v2", "Rates.", declared.bronze, "bronze_fx_rates")(with_rates)
    declare(monkeypatch, declared.dataset())
    told = backfill("dataset", "check", "tolls").stdout
    assert "fact_tolls, version v2 was not tried on rows: it reads bronze_fx_rates, of which nothing is tried" in told
    assert "fact_tolls, version v1 was not tried on rows: " in told and "CAST_INVALID_INPUT" in told
    workshop = Workshop(backfill.home, lambda: spark)
    rate = {"currency": "USD", "rate": "1.5", "rate_day": str(FIRST), "updated_at": f"{FIRST}T15:00:00Z"}
    land(backfill.home / "landing", "fx_rates", str(FIRST), "a", [rate])
    for table in ("raw_fx_rates", "bronze_fx_rates"):
        workshop.build(table, [FIRST])
    (tried,) = (each for each in backfill.json("dataset", "check", "tolls")["versions"] if each["version"] == "v2")
    assert (tried["table"], tried["rows_in"], tried["rows_out"]) == ("fact_tolls", 8, 8)


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
