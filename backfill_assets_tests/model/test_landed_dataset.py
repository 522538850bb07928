"""What follows from the class of a landed row, and which declarations are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, Field, declared_types
from backfill_assets.model.declaration import PUBLISHED_DAYS, Reads
from backfill_assets.model.declared_tables import TableTransform
from backfill_assets.model.landed import BronzeColumns, QuarantineColumns, RawColumns
from backfill_assets.model.landed_dataset import LandedDataset


def visits(*rows: type[Contract], **more: Any) -> LandedDataset:
    """With a version for each of ``rows``."""
    arguments: dict[str, Any] = {
        "name": "visits",
        "description": "Visits of patients.",
        "owners": ("team:a",),
        "first_day": date(2020, 1, 1),
        "rows": "visits",
        "most_rows": 10,
        "tolerated_rejects": 0,
    }
    declared = LandedDataset(**{**arguments, **more})
    for number, row in enumerate(rows, start=1):
        declared.row(f"v{number}", "Newest of each visit.")(row)
    return declared


class Visit(Contract):
    """A sound visit."""

    visit_id: T.StringType = Field(key=True, joined=("patient_token", "number"), description="Patient and number.")
    patient_token: T.StringType = Field(personal="patient_id", description="Whose.")
    number: T.LongType = Field(ge=1, description="Of the patient.")
    seen_at: T.TimestampType = Field(event_day=True, description="When.")
    cost: Annotated[T.DecimalType, 9, 2] = Field(nullable=True, description="In euros.")
    sent_at: T.TimestampType = Field(version=True, description="When it was sent.")


class ReportVisits(Contract):
    """Visits and their cost,
    of each day.
    """

    visits: T.LongType = Field(made_of="visit_id", description="How many.")
    cost: Annotated[T.DecimalType, 9, 2] = Field(made_of=("cost", "bronze_rates.rate"), description="In euros.")
    day: T.DateType = Field(key=True, description="The day.")


def test_the_source_is_what_the_row_says() -> None:
    """Landed names, also where they are personal and in the key; a joined column is not landed."""
    source = visits(Visit, supersession_window_days=7, days_ahead=3).source
    assert source.fields == ("patient_id", "number", "seen_at", "cost", "sent_at")
    assert source.types == {
        "number": "bigint",
        "seen_at": "timestamp",
        "cost": "decimal(9,2)",
        "sent_at": "timestamp",
    }
    assert (source.key_fields, source.event_day_field) == (("patient_id", "number"), "seen_at")
    assert (source.version_field, source.personal_fields) == ("sent_at", {"patient_id": "patient_token"})
    assert (source.supersession_window_days, source.days_ahead, source.earliest_day) == (7, 3, None)


class InPython(Contract):
    """A row whose types need no more than their names."""

    id: str = Field(key=True)
    number: int = Field(key=True)
    grams: float = Field()
    fragile: bool = Field()
    price: Decimal = Field()
    day_of: date = Field(event_day=True)
    sent_at: datetime = Field(version=True)
    floor: T.ShortType = Field()


class InSpark(Contract):
    """The same row in Spark's types."""

    id: T.StringType = Field(key=True)
    number: T.LongType = Field(key=True)
    grams: T.DoubleType = Field()
    fragile: T.BooleanType = Field()
    price: Annotated[T.DecimalType, 38, 18] = Field()
    day_of: T.DateType = Field(event_day=True)
    sent_at: T.TimestampType = Field(version=True)
    floor: T.ShortType = Field()


class ListsInPython(Contract):
    """Lists of what has a name in Python, and of what has none."""

    tags: list[str] = Field()
    counts: list[list[int]] = Field()
    floors: list[T.ShortType] = Field()


def test_a_type_that_needs_no_more_is_one_of_pythons() -> None:
    """Everything that follows is what follows from Spark's type: source, contracts, what decides rows."""
    by_python, by_spark = visits(InPython), visits(InSpark)
    assert by_python.source == by_spark.source and by_python.source.types["floor"] == "smallint"
    assert InPython.decides_rows() == InSpark.decides_rows()
    assert declared_types(ListsInPython) == {
        "tags": "array<string>",
        "counts": "array<array<bigint>>",
        "floors": "array<smallint>",
    }
    assert by_python.dataset().step_of("bronze_visits").tables[0].key == ("id", "number")


def test_a_field_has_another_name_in_raw_where_it_is_landed_as_a_column_of_ours() -> None:
    """It is landed by its own name, and is a column by the other one; the logic of all others is what it was."""
    declared = visits(RenamedVisit)
    source = declared.source
    assert source.fields[-2:] == ("day", "reasons") and source.columns[-2:] == ("work_day", "why")
    for table in declared.dataset().tables:
        assert list(table.contract.fields())[-1] == "day" and {"work_day", "why"} <= table.contract.fields().keys()
    assert declared.refinement().decides_rows()["renamed"] == {"day": "work_day", "reasons": "why"}
    assert "renamed" not in visits(Visit).refinement().decides_rows()


@pytest.mark.parametrize("more", [{"personal": "patient_id"}, {"joined": ("patient_token", "number")}])
def test_a_field_is_landed_by_one_name(more: dict[str, Any]) -> None:
    """A personal one has it already, and a joined column is not landed."""
    field = Field(landed="day", **more)
    with pytest.raises(InvalidRequest, match="TwiceLanded lands patient_token by two names"):
        type("TwiceLanded", (Visit,), {"patient_token": field, "__annotations__": {"patient_token": T.StringType}})


def test_when_a_delivery_is_due_and_how_much_is_unusual_is_declared_once() -> None:
    """The step of raw keeps what is about deliveries; each table how far its days may lie from the past.

    What is added up is that of the accepted rows.
    """
    sent = {"delivered_within": timedelta(hours=6), "sends_totals": True, "totals": ("cost",)}
    declared = visits(Visit, **sent, unusual_beyond=None).dataset()
    assert (declared.steps[0].delivered_within, declared.steps[0].sends_totals) == (timedelta(hours=6), True)
    assert {table.name: table.totals for table in declared.tables if table.totals} == {"bronze_visits": ("cost",)}
    assert [table.unusual_beyond for table in declared.tables] == [None] * 3


class Plane(Contract):
    """A plane in service."""

    tailnum: str = Field(key=True, description="As it is painted.")
    seats: int = Field(description="How many it has.")


class BuiltPlane(Plane):
    """With the day of an event."""

    built_on: date = Field(event_day=True, description="When it was built.")


def test_what_is_landed_whole_has_no_event_day_and_needs_no_version() -> None:
    """Contents say which of two equal keys wins; most of its days have no rows, so that one with rows is usual."""
    source = visits(Plane, replaced_whole=True).source
    assert source.replaced_whole and source.version_field == "tailnum" and not visits(Visit).source.replaced_whole
    tables = visits(Plane, replaced_whole=True).dataset().tables
    assert {table.unusual_beyond for table in tables} == {None}
    keyed = visits(WithoutVersionOrDay, replaced_whole=True).source
    assert keyed.version_field == "patient_token", "a token stands for it in raw"


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: visits(BuiltPlane, replaced_whole=True), "built_on of BuiltPlane is an event day"),
        (lambda: visits(Plane, replaced_whole=True, streamed=True), "streamed is set"),
        (lambda: visits(Plane, replaced_whole=True, delivered_within=timedelta(1)), "delivered_within is set"),
        (lambda: visits(Plane, replaced_whole=True, supersession_window_days=2), "supersession_window_days is set"),
        (lambda: visits(Plane), "0 fields of Plane are its event_day"),
    ],
)
def test_what_says_something_of_other_days_is_refused_of_it(declare: Callable[[], LandedDataset], words: str) -> None:
    """Nothing is declared that would be without effect."""
    with pytest.raises(InvalidRequest, match=words):
        declare().dataset()


class WithoutVersionOrDay(Contract):
    """A patient as they are known."""

    patient_token: T.StringType = Field(key=True, personal="patient_id", description="Whose.")


def test_raw_bronze_and_quarantine_follow() -> None:
    """Bronze has the joined key, and says what it is made of."""
    declared = visits(Visit)
    raw, bronze, quarantine = declared.dataset().tables
    assert (raw.name, bronze.name, quarantine.name) == (declared.raw, declared.bronze, declared.quarantine)
    assert (bronze.key, declared.refinement().derived) == (("visit_id",), {"visit_id": ("patient_token", "number")})
    assert bronze.made_of["visit_id"] == ("raw_visits.patient_token", "raw_visits.number")
    assert list(bronze.contract.fields())[:6] == list(Visit.fields())
    assert declared.dataset().steps[0].source == replace(declared.source, first_day=date(2020, 1, 1))


def test_a_second_row_is_another_version_of_bronze() -> None:
    """The last one is the current one; what the first one computed can be computed again."""

    class CostlyVisit(Visit):
        """A visit that costs something."""

        cost: Annotated[T.DecimalType, 9, 2] = Field(gt=0, description="In euros.")

    declared = visits(Visit, CostlyVisit)
    step = declared.dataset().step_of("bronze_visits")
    assert ([version.name for version in step.versions], step.current) == (["v1", "v2"], "v2")
    old, new = (declared.refinement(name).contract for name in ("v1", "v2"))
    assert (old.fields()["cost"].nullable, new.fields()["cost"].nullable) == (True, False)
    assert step.tables[0].contract is new


def test_identical_lines_are_numbered_as_the_last_column_of_the_key() -> None:
    """In the contract the number comes after what was landed."""
    bronze = visits(Visit, numbered=True).dataset().step_of("bronze_visits").tables[0]
    assert bronze.key == ("visit_id", "occurrence")
    assert list(bronze.contract.fields())[5:7] == ["sent_at", "occurrence"]


def test_a_table_and_its_versions() -> None:
    """Its docstring is its description; a name alone is read for the same day; the last version is the current one."""
    declared = with_report()
    declared.version(ReportVisits, "v3", "Not yet.", "bronze_visits", current=False)(nothing)
    step = declared._steps[ReportVisits]
    (table,) = step.tables
    assert (table.description, table.layer, table.key) == ("Visits and their cost, of each day.", "report", ("day",))
    assert ([version.name for version in step.versions], step.current) == (["v1", "v2", "v3"], "v2")
    assert step.version().reads == (Reads("bronze_visits"), Reads("bronze_rates", -7, 0))


def test_a_bare_origin_is_a_column_of_the_first_table_that_is_read() -> None:
    (table,) = with_report().dataset().step_of("report_visits").tables
    assert table.made_of == {
        "visits": ("bronze_visits.visit_id",),
        "cost": ("bronze_visits.cost", "bronze_rates.rate"),
    }


def test_a_month_reads_its_published_days() -> None:
    """Named alone, a table is read in part: a month does not wait for its last day."""
    declared = visits()
    declared.table("report_visits", cadence=Cadence.MONTHLY)(ReportVisits)
    declared.version(ReportVisits, "v1", "Sums.", "bronze_visits", Reads("bronze_rates"))(nothing)
    assert declared._steps[ReportVisits].version().reads == (
        Reads("bronze_visits", partial=True),
        Reads("bronze_rates"),
    )


def nothing(*frames: DataFrame) -> DataFrame:
    return frames[0]


def with_report() -> LandedDataset:
    declared = visits(Visit)
    declared.table("report_visits")(ReportVisits)
    declared.version(ReportVisits, "v1", "Sums.", "bronze_visits")(nothing)
    declared.version(ReportVisits, "v2", "In euros.", "bronze_visits", Reads("bronze_rates", -7, 0))(nothing)
    return declared


class TwoDays(Visit):
    """Two fields say the day."""

    sent_at: T.TimestampType = Field(version=True, event_day=True, description="When it was sent.")


class WithoutVersion(Visit):
    """Nothing says which row is newer."""

    sent_at: T.TimestampType = Field(description="When it was sent.")


class VisitWithCases(Visit):
    """Two fields that are one column."""

    Cost: Annotated[T.DecimalType, 9, 2] = Field(nullable=True, description="In dollars.")


class VisitOfNobody(Visit):
    """A visit whose key may be missing."""

    visit_id: T.StringType = Field(key=True, nullable=True, joined=("patient_token", "number"), description="Or none.")


class VisitOnDay(Visit):
    """A field that is called as the day of the row."""

    day: T.DateType = Field(description="As it was written.")


class VisitForReasons(Visit):
    """A field that is called as a column of quarantine."""

    reasons: T.StringType = Field(description="Why.")


class RenamedVisit(Visit):
    """Both, in columns of their own."""

    work_day: T.DateType = Field(landed="day", description="As it was written.")
    why: T.StringType = Field(landed="reasons", description="Why.")


class RescuedVisit(RenamedVisit):
    """A field that raw kept by its other name."""

    why: T.StringType = Field(landed="reasons", rescued=True, description="Why.")


class LongerVisit(Visit):
    """A visit with a field more."""

    minutes: T.LongType = Field(nullable=True, description="How long.")


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: visits().dataset(), "visits declares no row"),
        (lambda: visits(TwoDays).dataset(), "2 fields of TwoDays are its event_day"),
        (lambda: visits(WithoutVersion).dataset(), "0 fields of WithoutVersion are its version"),
        (lambda: visits(VisitOfNobody).dataset(), "wrong: bronze_visits, key: 'visit_id' is nullable"),
        (
            lambda: visits(VisitWithCases).dataset(),
            "wrong: source visits, fields: 'cost' and 'Cost' are equal but for case",
        ),
        (lambda: visits(VisitOnDay).dataset(), r"(?s)'day' is the column of the day.*landed_day: .*landed=\"day\""),
        (
            lambda: visits(VisitForReasons).dataset(),
            r"(?s)'reasons' is a column that ingestion adds.*landed=\"reasons\"",
        ),
        (lambda: visits(RescuedVisit).dataset(), "rescued_fields: 'why' is landed under another name"),
        (lambda: visits(Visit, LongerVisit).dataset(), "rows of visits in version v1 have other landed fields"),
        (lambda: visits().version(Visit, "v1", "Sums.", "bronze_visits")(nothing), "Visit is no table of visits"),
        (lambda: visits().table("visits_a_day")(ReportVisits), "visits_a_day does not begin with its layer"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Callable[[], object], words: str) -> None:
    """In words, and with the line that is missing."""
    with pytest.raises(InvalidRequest, match=words):
        declare()


def test_an_older_version_of_a_row_may_have_had_a_key_that_can_be_missing() -> None:
    """Its days can be built again as they were; what is current has a key."""
    step = visits(VisitOfNobody, Visit).dataset().step_of("bronze_visits")
    assert ([version.name for version in step.versions], step.current) == (["v1", "v2"], "v2")


def test_the_first_event_of_a_partition_has_offset_0() -> None:
    """Lines count from 1, offsets from 0: a contract that asks for more would hold the first event back."""
    for columns in (RawColumns, QuarantineColumns, BronzeColumns):
        line, file = columns.fields()["source_line"], columns.fields()["source_file"]
        assert line.checks == {"ge": 0}
        assert "offset, from 0" in str(line.description) and "kafka:<topic>/<partition>" in str(file.description)


# -------------------------------------------------------- what the framework does to the frame that a version gives


MONDAY = date(2017, 2, 27)


class ReportLines(Contract):
    """Lines of a shop."""

    shop: T.StringType = Field(key=True, description="Which.")
    lines: T.LongType = Field(description="How many.")
    day: T.DateType = Field(description="The day.")


class ReportPeriod(ReportLines):
    """Lines of a shop in a period."""

    complete: T.BooleanType = Field(description="Whether all of its days are in it.")
    days_published: T.LongType = Field(description="How many days are in it.")


def lines(spark: SparkSession) -> DataFrame:
    rows = [("A", date(2017, 2, 27)), ("A", date(2017, 3, 1)), ("B", date(2017, 3, 8))]
    return spark.createDataFrame(rows, "shop string, day date")


def count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("day", "shop").agg(F.count("*").alias("lines"), F.max("shop").alias("unwanted"))


def test_digits_decide_what_a_row_counts_as() -> None:
    """Other digits are an edit of the logic: published days have other checksums."""

    class Weighed(Contract):
        kilos: float = Field(digits=2)
        day: date = Field(key=True)

    class Finer(Weighed):
        kilos: float = Field(digits=3)

    class Plain(Contract):
        kilos: float = Field()
        day: date = Field(key=True)

    decided = [
        TableTransform("report", each, count, (Reads("fact"),)).decides_rows() for each in (Weighed, Finer, Plain)
    ]
    assert [each["columns"]["kilos"] for each in decided] == [  # type: ignore[index]
        *("double in 2 digits", "double in 3 digits", "double"),
    ]


def test_columns_come_in_the_order_of_the_contract_and_each_day_in_one_file(spark: SparkSession) -> None:
    """The function may give them in any order and among other columns."""
    transform = TableTransform("report_lines", ReportLines, count, (Reads("fact"),))
    (rows,) = transform({"fact": lines(spark).repartition(5)}).values()
    assert rows.columns == ["shop", "lines", "day"]
    placed = rows.withColumn("part", F.spark_partition_id()).groupBy("day").agg(F.count_distinct("part").alias("parts"))
    assert {row.parts for row in placed.collect()} == {1}


def test_rows_that_lie_by_day_already_are_not_shuffled(spark: SparkSession) -> None:
    """Adding columns to a day costs no shuffle."""
    transforms = [
        TableTransform(
            "fact", ReportLines, lambda fact: fact.withColumn("lines", F.lit(1)), (Reads("fact"),), clustered=c
        )
        for c in (False, True)
    ]
    plans = [t({"fact": lines(spark)})["fact"]._jdf.queryExecution().optimizedPlan().toString() for t in transforms]
    assert ["Repartition" in plan for plan in plans] == [True, False]


def test_a_period_says_how_many_of_its_days_are_published(spark: SparkSession) -> None:
    """Days without rows count, too; days of other tables do not. Known answers for a week and for a month."""
    days = [MONDAY.replace(day=27), MONDAY.replace(day=28), *(date(2017, 3, number) for number in range(1, 9))]
    published = spark.createDataFrame(
        [("fact", day) for day in days] + [("other", date(2017, 3, 9))], "table string, day date"
    )
    found = {}
    for cadence, period in ((Cadence.WEEKLY, "week"), (Cadence.MONTHLY, "month")):

        def of_period(frame: DataFrame, period: str = period) -> DataFrame:
            return count(frame.withColumn("day", F.trunc("day", period)))

        transform = TableTransform("report", ReportPeriod, of_period, (Reads("fact", partial=True),), cadence)
        (rows,) = transform({"fact": lines(spark), PUBLISHED_DAYS: published}).values()
        assert rows.columns == ["shop", "lines", "day", "complete", "days_published"]
        found[cadence] = {
            (row.shop, row.lines, str(row.day), row.complete, row.days_published) for row in rows.collect()
        }
    assert found[Cadence.WEEKLY] == {("A", 2, "2017-02-27", True, 7), ("B", 1, "2017-03-06", False, 3)}
    assert found[Cadence.MONTHLY] == {
        ("A", 1, "2017-02-01", False, 2),
        ("A", 1, "2017-03-01", False, 8),
        ("B", 1, "2017-03-01", False, 8),
    }
