"""Every way in which a landed line can break the sales contract has a line here, derived from the contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from backfill_assets.days import DayRange
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.sample.landing_writer import line
from backfill_assets.landing.quarantine import general
from backfill_assets.model.checks import KINDS, struct_type
from backfill_assets.model.contract import DeclaredField
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed import BronzeColumns
from backfill_assets_tests.stories.landed_lines import land_lines
from backfill_assets_tests.strategies.landed_sales import land, sale
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = DayRange.parse("2017-03-01..2017-03-01")
(DAY,) = DAYS
ABSENT = None
NO_OBJECT = "line: is not one JSON object with distinct fields"
ABSURD = "transaction_timestamp: is no plausible day"
CANNOT_BE_LANDED = {"household_token: does not match ^[0-9a-f]{64}$"}
"""A token is computed while raw is taken in; what lands is the household."""

# For each check of the contract, a value that a source might send and that breaks it.
BREACHES: Mapping[str, str] = {
    "ge": "-1",
    "le": "100000000.01",
    "str_matches": "usd",
    "str_length": "",
}
UNREADABLE: Mapping[str, str] = {"bigint": "many", "decimal(18,2)": "12,50", "timestamp": "yesterday"}
WHOLE_LINES: Mapping[str, tuple[str, ...]] = {
    NO_OBJECT: (
        "{broken",
        '{"basket_id": "1"} {"basket_id": "2"}',
        '["a", "list"]',
        '"text"',
        '{"basket_id": "1", "basket_id": "2"}',
        "null",
    )
}


def source() -> Source:
    found = CATALOG.step("raw_sales").source
    assert found is not None
    return found


def judged_columns() -> dict[str, DeclaredField]:
    """The columns of the contract that are judged against what landed, with their checks."""
    columns = CATALOG.table("bronze_sales").contract.fields()
    return {name: column for name, column in columns.items() if name not in BronzeColumns.fields()}


def every_reason(spark: SparkSession) -> set[str]:
    """In the general form, as the contract words them: missing, unreadable, and each check of each column."""
    types = {field.name: field.dataType.simpleString() for field in struct_type(CATALOG.table("bronze_sales").contract)}
    found = {NO_OBJECT, ABSURD}
    for name, column in judged_columns().items():
        found |= set() if column.nullable else {f"{name}: is missing"}
        found |= {f"{name}: is not a {types[name]}"} if types[name] != "string" else set()
        found |= {f"{name}: {KINDS[check].wrong(asked)}" for check, asked in column.checks.items()}
    return found - CANNOT_BE_LANDED


def lines_that_break() -> list[str]:
    """One line for each column and each way to break it, each a transaction of its own."""
    changes: list[dict[str, str | None]] = [{"transaction_timestamp": "2099-12-31T00:00:00Z"}]
    landed = {column: name for name, column in source().personal_fields.items()}
    for name, column in judged_columns().items():
        field = landed.get(name, name)
        if name in source().columns:
            changes.append({field: ABSENT})
            changes += [{field: UNREADABLE[source().type_of(name)]}] if source().type_of(name) != "string" else []
            changes += [{field: BREACHES[check]} for check in column.checks if name not in landed]
    lines = [_without_absent(sale(**{"basket_id": f"b{number}", **change})) for number, change in enumerate(changes)]
    return [*lines, *(text for texts in WHOLE_LINES.values() for text in texts)]


def _without_absent(values: Mapping[str, str | None]) -> str:
    return line({name: value for name, value in values.items() if value is not ABSENT})


def test_every_quarantine_reason_has_a_landed_line(workshop: Workshop, spark: SparkSession) -> None:
    """A check that is added to the contract fails this until there is a line for it; and no line is lost."""
    lines = lines_that_break()
    land(workshop.settings.landing, "sales", str(DAY), "bad", lines)
    land_lines(workshop.settings.landing, DAY, "shop", 100 * len(lines))
    for table in ("raw_sales", "bronze_sales"):
        workshop.build(table, DAYS)
    rejected = workshop.read("quarantine_sales")
    found = {general(reason) for reasons in rejected["reasons"] for reason in reasons}
    assert found == every_reason(spark)
    of_bad = Counter(rejected["source_file"])["sales/2017-03-01/bad.jsonl.gz"]
    assert of_bad == len(lines) == len(rejected)
    assert len(workshop.read("raw_sales")) == 101 * len(lines) == len(workshop.read("bronze_sales")) + len(rejected)
