"""A wrong declaration is refused when it is made, in words, with the name that was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sea_temperatures import SEA
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset, require_sound
from backfill_assets.model.declaration import AsOf, DayRule, Reads, Source, Step, Version
from backfill_assets.model.refinement import Refinement
from backfill_assets.model.rules import (
    ConvertedExactly,
    EverythingAccountedFor,
    FewNulls,
    FewRejected,
    FewUnknown,
    RatesFound,
    TotalAgrees,
    VolumeWithin,
)
from backfill_assets_tests.stories.orders_of_others import SHOP

BRONZE = "bronze_sea_temperatures"
RAW = "raw_sea_temperatures"
READS = (Reads(BRONZE),)
SEA_DATASET = SEA.dataset()
(REPORT,) = SEA_DATASET.step_of("report_sea_temperature").tables
SOURCE = SEA.source
REFINEMENT = SEA.refinement()
WINDOWED = replace(SOURCE, supersession_window_days=7)


class WithDayFirst(Contract):
    """A contract that does not end in the day."""

    day: T.DateType = Field(key=True)
    readings: T.LongType = Field(ge=1)


class WithDoubles(REPORT.contract):  # type: ignore[misc,name-defined]
    """A number that is rounded as it is computed."""

    mean_celsius: T.DoubleType = Field()


def with_mean(kind: Any, **asked: Any) -> type[Contract]:
    """The report's contract with a mean of another kind."""
    declared = {"mean_celsius": Field(made_of="celsius", **asked), "__annotations__": {"mean_celsius": kind}}
    return type("WithMean", (REPORT.contract,), {**declared, "__module__": __name__})


class WithoutSensor(REPORT.contract):  # type: ignore[misc,name-defined]
    """Readings of nobody knows which sensor."""

    sensor_id: T.StringType = Field(key=True, nullable=True)


class WithCases(Contract):
    """Two columns whose names are told apart by people alone."""

    readings: T.LongType = Field(key=True)
    Readings: T.LongType = Field(ge=1)
    day: T.DateType = Field()


def landed(source: Source = SOURCE, **changes: Any) -> tuple[Step, Step]:
    raw, bronze = SEA_DATASET.steps[:2]
    return replace(raw, source=source), replace(bronze, **changes)


def declared(*steps: Step, landed_as: tuple[Step, Step] | None = None) -> Dataset:
    return replace(SEA_DATASET, steps=(*(landed_as or landed()), *steps))


def report(*reads: Reads, cadence: Cadence = Cadence.DAILY, **changes: Any) -> Step:
    return Step((replace(REPORT, **changes),), (Version("v1", "", reads or READS, dict),), "v1", cadence=cadence)


def ruled(*rules: DayRule) -> Dataset:
    return declared(report(rules=rules))


def source(**changes: Any) -> Dataset:
    return declared(landed_as=landed(replace(SOURCE, **changes)))


def as_of_others() -> Dataset:
    shop = SHOP.dataset()
    orders, fact, _ = shop.steps
    version = replace(fact.version(), reads=(AsOf("orders"),))
    return replace(shop, steps=(orders, replace(fact, versions=(version,))))


WRONG: Mapping[str, tuple[Callable[[], Dataset], str]] = {
    "the total of a fact": (
        lambda: ruled(TotalAgrees("readings", fact=BRONZE, fact_total="row")),
        "rule total_agrees_readings: 'row' is no total of bronze_sea_temperatures.*Did you mean rows",
    ),
    "a column of a fact that is not measured as a total": (
        lambda: ruled(TotalAgrees("readings", fact=BRONZE, fact_total="celsius")),
        r"'celsius' is no total of bronze_sea_temperatures.*totals=\(\"celsius\",\)",
    ),
    "the own total of a rule": (
        lambda: declared(report(totals=())),
        r"rule total_agrees_readings: 'readings' is no total of report_sea_temperature.*totals=\(\"readings\",\)",
    ),
    "the table of a rule": (
        lambda: ruled(VolumeWithin(1_000, made_of="bronze_sea_temperature")),
        "rule volume_within: there is no table 'bronze_sea_temperature'.*Did you mean bronze_sea_temperatures",
    ),
    "a rule that looks at its own table": (
        lambda: ruled(VolumeWithin(1_000, made_of=REPORT.name)),
        "rule volume_within: it compares report_sea_temperature with itself",
    ),
    "a total of a table that the step does not read": (
        lambda: declared(
            report(),
            report(Reads(REPORT.name), name="report_sea", rules=(TotalAgrees("readings", BRONZE, "rows"),)),
            replace_total(),
        ),
        "rule total_agrees_readings: report_again does not read report_sea_temperature",
    ),
    "what another table does not measure": (
        lambda: ruled(EverythingAccountedFor(raw=RAW, quarantine=BRONZE.replace("bronze", "quarantine"))),
        "rule everything_accounted_for: .*'deduplicated_rows' is no column of report_sea_temperature",
    ),
    "received rows of a table that is not raw": (
        lambda: ruled(FewRejected(SOURCE, BRONZE, BRONZE, at_most=Decimal(0))),
        "rule few_rejected: bronze_sea_temperatures does not measure 'received'",
    ),
    "the column of a rule": (
        lambda: ruled(FewNulls("mean_celcius", at_most=Decimal(0))),
        "rule few_nulls_mean_celcius: 'mean_celcius' is no column of .*Did you mean mean_celsius",
    ),
    "several columns of a rule": (
        lambda: ruled(RatesFound(rate="readings", currency="sensor", within_days=7)),
        "rule rates_found: 'sensor' is no column of report_sea_temperature.*Did you mean sensor_id",
    ),
    "a column that is converted": (
        lambda: ruled(ConvertedExactly("mean_celsius", rate="readings", converted="kelvin", digits=4)),
        "rule converted_exactly_kelvin: 'kelvin' is no column of report_sea_temperature",
    ),
    "two rules of one name": (
        lambda: ruled(VolumeWithin(1), VolumeWithin(2)),
        "report_sea_temperature: it has two rules volume_within",
    ),
    "a rule without a hash": (
        lambda: ruled(FewUnknown("sensor_id", ["X"], "readings", Decimal(0))),  # type: ignore[arg-type]
        r"it cannot be compared by its value: unhashable type: 'list'",
    ),
    "no key": (lambda: declared(report(key=())), r"report_sea_temperature: it has no key.*\(\"day\",\)"),
    "a key that may be missing": (
        lambda: declared(report(contract=WithoutSensor)),
        "report_sea_temperature, key: 'sensor_id' is nullable: a row without it has no key.*Leave out nullable=True",
    ),
    "columns that are one": (
        lambda: declared(
            report(
                contract=WithCases,
                key=("readings",),
                groups=(),
                made_of=dict.fromkeys(("readings", "Readings"), (f"{BRONZE}.measured_at",)),
            )
        ),
        "report_sea_temperature, contract WithCases: 'readings' and 'Readings' are equal but for case.*another name",
    ),
    "fields that are one": (
        lambda: source(fields=(*SOURCE.fields, "Celsius")),
        "source sea_temperatures, fields: 'celsius' and 'Celsius' are equal but for case",
    ),
    "a field that is a column of raw but for case": (
        lambda: source(fields=(*SOURCE.fields, "Source_File")),
        "fields: 'source_file' and 'Source_File' are equal but for case",
    ),
    "a field that is the day of its row but for case": (
        lambda: source(fields=(*SOURCE.fields, "DAY")),
        "fields: 'day' and 'DAY' are equal but for case",
    ),
    "a total": (lambda: declared(report(totals=("reading",))), "totals: 'reading' is no column of .*mean readings"),
    "a total of texts": (
        lambda: declared(report(totals=("readings", "sensor_id"))),
        "totals: 'sensor_id' is a string: only numbers add up",
    ),
    "digits of what is exact": (
        lambda: declared(report(contract=with_mean(Annotated[T.DecimalType, 8, 4], digits=2))),
        r"digits of 'mean_celsius': it is a decimal\(8,4\), which is exact.*Leave digits out",
    ),
    "more digits than a double has": (
        lambda: declared(report(contract=with_mean(T.DoubleType, digits=15))),
        "digits of 'mean_celsius': 15 are behind the point.*0 to 14",
    ),
    "a range that is wider than digits allow": (
        lambda: declared(report(contract=with_mean(float, digits=12, in_range={"min_value": -5, "max_value": 1001}))),
        "digits of 'mean_celsius': a double has 15 digits in all.*between -1000 and 1000",
    ),
    "a total of doubles": (
        lambda: declared(report(contract=WithDoubles, totals=("mean_celsius",))),
        "totals: 'mean_celsius' is a double: its sum is another one in another order of rows.*digits=, or as a decimal",
    ),
    "a group": (lambda: declared(report(groups=("sensors",))), "groups: 'sensors' is no column of .*mean sensor_id"),
    "what a column is made of": (
        lambda: declared(report(made_of={**REPORT.made_of, "readings": (f"{BRONZE}.celcius",)})),
        "made_of: 'celcius' is no column of bronze_sea_temperatures.*Did you mean celsius",
    ),
    "a table that a column is made of": (
        lambda: declared(report(made_of={**REPORT.made_of, "readings": (f"{RAW}.celsius",)})),
        "made_of: v1 does not read 'raw_sea_temperatures'.*It reads bronze_sea_temperatures",
    ),
    "a column of unknown origin": (
        lambda: declared(report(made_of={name: of for name, of in REPORT.made_of.items() if name != "mean_celsius"})),
        "made_of: it is not known what 'mean_celsius' is made of",
    ),
    "a contract without a day": (
        lambda: declared(report(contract=WithDayFirst, key=("readings",), groups=(), rules=(), made_of={})),
        "contract WithDayFirst: its last column is not 'day'",
    ),
    "an event day of another type": (
        lambda: source(event_day_field="celsius"),
        r"event_day_field: 'celsius' is a decimal\(6,3\).*date or timestamp",
    ),
    "a rescued field of the key": (
        lambda: source(rescued_fields=("sensor_id",)),
        "rescued_fields: 'sensor_id' is the event day, the version, personal or in the key",
    ),
    "a type": (
        lambda: source(types={**SOURCE.types, "celsius": "binary"}),
        "types: 'celsius': Landed text cannot be typed as binary.*double, float, boolean.*decimal",
    ),
    "a list of lists": (
        lambda: source(types={**SOURCE.types, "celsius": "array<array<bigint>>"}),
        "types: 'celsius': A landed list has no lists in it.*one list, or as text",
    ),
    "a list of what is no text": (
        lambda: source(types={**SOURCE.types, "celsius": "array<struct<a:binary>>"}),
        "types: 'celsius': Landed text cannot be typed as binary.*an array, struct or map",
    ),
    "a list as a version": (
        lambda: source(types={**SOURCE.types, "sent_at": "array<bigint>"}),
        "version: 'sent_at' is an array<bigint>: versions are whole numbers",
    ),
    "a key that is no exact value": (
        lambda: source(types={**SOURCE.types, "sensor_id": "double"}),
        "key: 'sensor_id' is a double: keys are whole numbers, decimals, text or times.*or name another column",
    ),
    "a version that is true or false": (
        lambda: source(types={**SOURCE.types, "sent_at": "boolean"}),
        "version: 'sent_at' is a boolean: versions are whole numbers",
    ),
    "a key of a table that is no exact value": (
        lambda: declared(report(contract=WithDoubles, key=("sensor_id", "mean_celsius"))),
        "key: 'mean_celsius' is a double: a key is what tells rows apart exactly.*as a decimal or as text",
    ),
    "a field twice": (lambda: source(fields=(*SOURCE.fields, "celsius")), "fields: 'celsius' is there twice"),
    "a field with the name of a column of raw": (
        lambda: source(fields=(*SOURCE.fields, "source_file")),
        "fields: 'source_file' is a column that ingestion adds",
    ),
    "the name of a source": (lambda: source(name="Sea-Temperatures"), "'Sea-Temperatures' is no name of a folder"),
    "the current version": (
        lambda: declared(landed_as=landed(current="v2")),
        "bronze_sea_temperatures: it has no version 'v2'.*Versions: v1",
    ),
    "two versions of one name": (
        lambda: declared(landed_as=landed(versions=2 * (Version("v1", "", (Reads(RAW),), REFINEMENT),))),
        "bronze_sea_temperatures: it has two versions v1",
    ),
    "a table that is read": (
        lambda: declared(report(Reads("bronze_sea_temperature"), made_of={}, rules=())),
        "version v1: there is no table 'bronze_sea_temperature'.*Did you mean bronze_sea_temperatures",
    ),
    "a table that is built later": (
        lambda: replace(SEA_DATASET, steps=(report(), *landed())),
        "version v1: bronze_sea_temperatures is built after report_sea_temperature",
    ),
    "a report of another cadence that is read": (
        lambda: declared(
            report(Reads(BRONZE, partial=True), cadence=Cadence.MONTHLY),
            report(Reads(REPORT.name), name="report_again", rules=(), made_of={}),
        ),
        "version v1: report_sea_temperature is monthly",
    ),
    "days in part": (
        lambda: declared(report(Reads(BRONZE, partial=True))),
        "version v1: report_sea_temperature is daily: it cannot read bronze_sea_temperatures in part",
    ),
    "a month as of a day": (
        lambda: declared(report(AsOf(BRONZE), cadence=Cadence.MONTHLY)),
        "version v1: report_sea_temperature is monthly: only a day reads bronze_sea_temperatures as of itself",
    ),
    "a table as of a day and of the day": (
        lambda: declared(report(Reads(BRONZE), AsOf(BRONZE))),
        "version v1: it reads bronze_sea_temperatures twice",
    ),
    "a table of others as of a day": (
        as_of_others,
        "version v1: it reads orders as of a day: which days of a table of others have rows is not known",
    ),
    "two tables of one name": (lambda: declared(report(), report()), "there are two tables report_sea_temperature"),
}


def replace_total() -> Step:
    again = TotalAgrees("readings", fact=REPORT.name, fact_total="readings")
    return report(Reads("report_sea"), name="report_again", rules=(again,), made_of={})


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_name_is_refused_when_it_is_declared(wrong: str) -> None:
    """Not after minutes of Spark, as a traceback: the dataset, the table, the rule, the name and the near one."""
    declare, words = WRONG[wrong]
    with pytest.raises(InvalidRequest, match=f"(?s)The (dataset|source) .*{words}"):
        require_sound([declare()])


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """A person who corrects one name after the other waits for the next message each time."""
    with pytest.raises(InvalidRequest, match="wrong in 3 places") as error:
        declared(report(totals=("reading",), groups=("sensors",), rules=(FewNulls("reading", Decimal(0)),)))
    assert str(error.value).count("Did you mean") == 3


def test_every_registered_dataset_is_sound() -> None:
    """They are judged when the package is read, and then with the tables of the others."""
    require_sound(CATALOG.datasets)


def test_a_total_of_another_dataset_is_judged_with_it() -> None:
    """A dataset alone cannot know what another one measures; the catalogue does."""
    total = TotalAgrees("readings", fact="bronze_sales", fact_total="revenue")
    foreign = declared(report(Reads(BRONZE), Reads("bronze_sales"), rules=(total,)))
    with pytest.raises(InvalidRequest, match="'revenue' is no total of bronze_sales"):
        require_sound([*(each for each in CATALOG.datasets if each.name != foreign.name), foreign])


def test_a_report_is_compared_with_a_sum_of_bronze() -> None:
    raw, bronze = landed()
    summed = TotalAgrees("readings", fact=BRONZE, fact_total="celsius")
    accounted = replace(bronze.tables[0], totals=("celsius",))
    totals = replace(bronze, tables=(accounted, *bronze.tables[1:]))
    require_sound([declared(report(rules=(summed,)), landed_as=(raw, totals))])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"key": ("sensor_id", "occurrence"), "source": WINDOWED}, "key: identical lines are numbered within a day"),
        ({"derived": {"place": ("sensor", "celsius")}}, "derived: 'sensor' is no landed field"),
        ({"key": ()}, "has no key"),
        ({"key": ("day", "sensor_id")}, "'day' is part of every key"),
    ],
)
def test_a_refinement_is_judged_when_it_is_made(arguments: dict[str, Any], words: str) -> None:
    """Its key is inside a transform, where nothing else would look for it."""
    with pytest.raises(InvalidRequest, match=f"(?s){words}"):
        Refinement(**{**vars(REFINEMENT), **arguments})


def test_doubles_add_up_in_the_digits_that_are_declared() -> None:
    """A number within them is asked for as well: what is none would be missing from the total."""
    contract = with_mean(float, digits=3, ge=-5)
    found = declared(report(contract=contract, totals=("readings", "mean_celsius")))
    assert found.tables[-1].totals == ("readings", "mean_celsius")
    asked = contract.fields()["mean_celsius"].checks
    assert asked == {"in_range": {"min_value": -(10**12), "max_value": 10**12}, "ge": -5}
