"""Kinds of sources that hold the same bills: how each is declared, filled, corrected and broken.

To add one is to add it to :data:`KINDS`. What it cannot do, it says in the words that a person reads.
"""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill_assets.days import DayRange
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.derived_dataset import DerivedDataset
from backfill_assets.model.external_table import ExternalTable
from backfill_assets.model.landed_dataset import LandedDataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from backfill_assets_tests.workshop import Workshop

DAYS = DayRange.parse("2025-01-01..2025-01-04")
FACT, NOON = "fact_bills", time(12, tzinfo=UTC)
Money = Annotated[T.DecimalType, 10, 2]


@dataclass(frozen=True)
class Bill:
    """What a source says of a bill; ``more`` is a column that nobody has declared."""

    number: str
    day: date
    amount: str
    more: str = ""


FIRST = tuple(Bill(str(number), day, f"{number}.50") for number, day in enumerate([*DAYS, *DAYS], start=1))
"""Two bills a day."""


class FactBills(Contract):
    """What was billed on a day."""

    bills: T.LongType = Field(ge=1, made_of="number")
    amount: Annotated[T.DecimalType, 20, 2] = Field(made_of="amount")
    day: date = Field(key=True)


def by_day(bills: DataFrame) -> DataFrame:
    return bills.groupBy("day").agg(F.count("*").alias("bills"), F.sum("amount").alias("amount"))


def twice(bills: DataFrame) -> DataFrame:
    return by_day(bills).withColumn("amount", (F.col("amount") * 2).cast("decimal(20,2)"))


def with_fact(dataset: DeclaredTables, reads: str) -> DeclaredTables:
    """``dataset`` with the fact, whose first version counts each amount twice."""
    dataset.table(FACT, totals=("amount",))(FactBills)
    dataset.version(FactBills, "v1", "Counts twice.", reads)(twice)
    dataset.version(FactBills, "v2", "Sums.", reads)(by_day)
    return dataset


class Kind(ABC):
    """A kind of source of bills; ``origin`` is the table that the fact's rows come from."""

    name: ClassVar[str]
    origin: ClassVar[str]
    above: ClassVar[tuple[str, ...]]
    """What is built before the fact, in order."""

    @abstractmethod
    def dataset(self, home: Path) -> Dataset: ...

    @abstractmethod
    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        """The source has ``bills`` from now on, also of days before ``arrives``."""

    def build(self, workshop: Workshop, version: str | None = None) -> None:
        """All days, by a version of the fact."""
        for table in self.above:
            workshop.build(table, DAYS)
        workshop.build(FACT, DAYS, version)


class Landed(Kind):
    """Files that land in folders."""

    origin = "bronze_bills"
    above = ("raw_bills", "bronze_bills")

    def declared(self, **how: object) -> LandedDataset:
        made = LandedDataset(
            name="bills",
            description="Bills.",
            owners=("team:bills",),
            first_day=DAYS.first,
            rows="bills",
            most_rows=1_000,
            tolerated_rejects=2,
            totals=("amount",),
            **how,  # type: ignore[arg-type]
        )

        @made.row("v1", "Newest of each bill.")
        class Row(Contract):
            """A sound bill."""

            number: str = Field(key=True)
            billed_at: datetime = Field(event_day=True)
            amount: Money = Field(ge=0)
            sent_at: datetime = Field(version=True)

        return made

    def dataset(self, home: Path) -> Dataset:
        made = self.declared()
        with_fact(made, made.bronze)
        return made.dataset()

    def records(self, arrives: date, bills: Sequence[Bill]) -> list[Mapping[str, object]]:
        return [
            {
                "number": bill.number,
                "billed_at": f"{bill.day}T12:00:00Z",
                "amount": bill.amount,
                "sent_at": f"{arrives}T13:00:00Z",
                **({"more": bill.more} if bill.more else {}),
            }
            for bill in bills
        ]

    def folder(self, home: Path, arrives: date) -> Path:
        found = home / "landing" / "bills" / str(arrives)
        found.mkdir(parents=True, exist_ok=True)
        return found


class NaturalLines(Landed):
    """JSON lines with numbers that are numbers."""

    name = "json"

    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        folder = self.folder(home, arrives)
        pairs = zip(self.records(arrives, bills), bills, strict=True)
        lines = [json.dumps(record).replace(f'"{bill.amount}"', bill.amount) for record, bill in pairs]
        (folder / f"{len(list(folder.iterdir()))}.jsonl").write_text("".join(f"{line}\n" for line in lines))


class CsvFiles(Landed):
    """CSV with a header."""

    name = "csv"

    def declared(self, **how: object) -> LandedDataset:
        return super().declared(format=Csv(), **how)

    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        folder, records = self.folder(home, arrives), self.records(arrives, bills)
        rows = [list(records[0]), *(list(map(str, record.values())) for record in records)]
        (folder / f"{len(list(folder.iterdir()))}.csv").write_text("".join(f"{','.join(row)}\n" for row in rows))


class ParquetFiles(Landed):
    """Parquet, with decimals and moments that are such."""

    name = "parquet"

    def declared(self, **how: object) -> LandedDataset:
        return super().declared(format=Parquet(), **how)

    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        folder = self.folder(home, arrives)
        rows = [
            {**record, "amount": Decimal(bill.amount), "billed_at": datetime.combine(bill.day, NOON)}
            for record, bill in zip(self.records(arrives, bills), bills, strict=True)
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{len(list(folder.iterdir()))}.parquet")


class OtherBill(Contract):
    """A bill as others have it."""

    number: str = Field(key=True)
    amount: Money = Field(ge=0)


class DeltaOfOthers(Kind):
    """A Delta table that others write, read in place."""

    name = "external"
    origin = "bills"
    above = ()
    _columns = pa.schema([("number", pa.string()), ("amount", pa.decimal128(10, 2)), ("billed_on", pa.date32())])

    def at(self, home: Path) -> str:
        return str(home / "others" / "bills")

    def dataset(self, home: Path) -> Dataset:
        external = ExternalTable("bills", OtherBill, location=self.at(home), day="billed_on")
        made = DerivedDataset(
            name="billing", description="Bills.", owners=("team:bills",), first_day=DAYS.first, external=(external,)
        )
        with_fact(made, "bills")
        return made.dataset()

    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        """Others write what there is now: a bill with a known number is replaced."""
        if DeltaTable.is_deltatable(self.at(home)):
            there = DeltaTable(self.at(home))
            there.delete(f"number IN ({', '.join(repr(bill.number) for bill in bills)})")
            if any(bill.more for bill in bills):
                there.alter.add_columns([DeltaField("more", PrimitiveType("string"))])
        rows = [
            {"number": bill.number, "amount": Decimal(bill.amount), "billed_on": bill.day, "more": bill.more or None}
            for bill in bills
        ]
        more = any(bill.more for bill in bills)
        columns = self._columns.append(pa.field("more", pa.string())) if more else self._columns
        table = pa.Table.from_pylist([{name: row[name] for name in columns.names} for row in rows], schema=columns)
        write_deltalake(self.at(home), table, mode="append", partition_by=["billed_on"])

    def send_doubles(self, home: Path) -> None:
        """Others make their table anew, with amounts that are doubles."""
        columns = {"number": pa.array(["1"]), "billed_on": pa.array([DAYS.first]), "amount": pa.array([1.5])}
        write_deltalake(
            self.at(home), pa.table(columns), mode="overwrite", schema_mode="overwrite", partition_by=["billed_on"]
        )


class FolderOfOthers(DeltaOfOthers):
    """A folder of Parquet files that others write, read in place."""

    name = "folder"

    def dataset(self, home: Path) -> Dataset:
        external = ExternalTable("bills", OtherBill, location=self.at(home), day="billed_on", written="parquet")
        made = DerivedDataset(
            name="billing", description="Bills.", owners=("team:bills",), first_day=DAYS.first, external=(external,)
        )
        with_fact(made, "bills")
        return made.dataset()

    def send(self, home: Path, arrives: date, bills: Sequence[Bill]) -> None:
        """A file of a day is written anew, with the bills that it had and has now."""
        numbers = {bill.number for bill in bills}
        for day in sorted({bill.day for bill in bills}):
            file = Path(self.at(home)) / f"billed_on={day}" / "bills.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            there = pq.ParquetFile(file).read().to_pylist() if file.exists() else []
            rows = [row for row in there if row["number"] not in numbers]
            rows += [
                {"number": bill.number, "amount": Decimal(bill.amount), **({"more": bill.more} if bill.more else {})}
                for bill in bills
                if bill.day == day
            ]
            columns = [self._columns.field("number"), self._columns.field("amount")]
            more = [pa.field("more", pa.string())] if any("more" in row for row in rows) else []
            pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema([*columns, *more])), file)

    def send_doubles(self, home: Path) -> None:
        shutil.rmtree(self.at(home))
        file = Path(self.at(home)) / f"billed_on={DAYS.first}" / "bills.parquet"
        file.parent.mkdir(parents=True)
        pq.write_table(pa.table({"number": ["1"], "amount": [1.5]}), file)


KINDS: Sequence[Kind] = (NaturalLines(), CsvFiles(), ParquetFiles(), DeltaOfOthers(), FolderOfOthers())
