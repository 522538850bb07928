"""What a company begins with, each from an empty folder: the ways of the guide, with what is typed and written by hand.

Others have written the data: Spark, pandas or a topic. Each way ends with rows as plain Python computes them.
"""

from __future__ import annotations

import csv
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from backfill_assets.days import DayRange
from backfill_assets_tests.stories import orders_of_others
from backfill_assets_tests.wheel.project import Project

FIRST, LONG_AGO = date(2025, 1, 1), date(2021, 1, 1)
FACT, REPORT = "fact_daily_orders", "report_orders"
_A_DAY = 4
"""Orders on each day; every tenth was deleted since."""
_TAX = Decimal("1.07")
_WRITE = """
import json, sys
from backfill_assets.settings import Settings
from backfill_assets.spark.session import spark_session
with spark_session(Settings.from_environment(), "others") as spark:
    for statement in json.loads(sys.argv[1]):
        spark.sql(statement)
"""
_ORDERS = """
CREATE TABLE {orders} (order_id STRING, email STRING, order_date DATE, amount DECIMAL(10,2)) USING delta
PARTITIONED BY (order_date) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO {orders}
SELECT CAST(id AS STRING), CONCAT('u', id % 3, '@x.org'), DATE'{first}' + CAST(id DIV {a_day} AS INT),
  CAST(id % 97 AS DECIMAL(10,2))
FROM range({rows});
DELETE FROM {orders} WHERE CAST(order_id AS BIGINT) % 10 = 9
"""
_HISTORY = """
CREATE TABLE {history} (customers BIGINT, amount DECIMAL(18,2), day DATE) USING delta PARTITIONED BY (day);
INSERT INTO {history}
SELECT COUNT(DISTINCT email), CAST(SUM(amount) AS DECIMAL(18,2)), order_date FROM {orders} GROUP BY order_date
"""


@dataclass(frozen=True)
class Size:
    """How many days the table of others has, the adopted one, and how many of each are wrong."""

    days: int
    adopted: int
    wrong: int
    rows: int
    """Of a file, and of a topic."""


FULL, SMALL = Size(400, 1_790, 90, 10_000), Size(40, 60, 9, 300)


@dataclass
class Walk:
    """One way: its project, what was typed and written, and when it began."""

    project: Project
    size: Size
    commands: int = 0
    lines: int = 0
    """That a person writes; imports and blank lines do not count."""
    proposed: int = 0
    """The same, of what is written by ``dataset new`` or ``init``."""
    began: float = field(default_factory=time.monotonic)
    minutes: float = 0.0

    @property
    def folder(self) -> Path:
        return self.project.folder

    def types(self, *words: object, **variables: str) -> Any:
        self.commands += 1
        project = replace(self.project, variables={**self.project.variables, **variables})
        return project.backfill(*map(str, words))

    def types_as_told(self, told: str) -> None:
        """The lines that a command has said come next; those of the shell, too."""
        for line in told.splitlines():
            if line.startswith("  "):
                self.commands += 1
                self.project(*shlex.split(line))

    def declares(self, text: str) -> None:
        """In place of the example that ``init`` wrote; what was there already is not counted again."""
        self.lines = lines_of(text)
        (self.folder / "shop" / "datasets" / "orders.py").write_text(text)

    def published(self, table: str, column: str = "amount") -> Mapping[date, Any]:
        rows = DeltaTable(self.folder / ".data" / "lakehouse" / table).to_pyarrow_table(columns=["day", column])
        return dict(zip(rows["day"].to_pylist(), rows[column].to_pylist(), strict=True))

    def spark(self, *scripts: str, first: date = FIRST, **names: object) -> None:
        """By others, in a session of their own."""
        places = {name: f"delta.`{self.folder / 'others' / name}`" for name in ("orders", "history")}
        asked = [statement for text in scripts for statement in text.split(";")]
        made = [each.format(**places, first=first, a_day=_A_DAY, **names) for each in asked]
        self.project("python", "-c", _WRITE, json.dumps(made))


def lines_of(text: str) -> int:
    """Lines that say something; a comment, a docstring of the module or an import does not."""
    said = (line for line in text.splitlines() if line.strip() and not line.startswith(("from ", "import ", '"""')))
    return sum(not line.strip().startswith("#") for line in said)


def amounts(days: int, taxed: Collection[date] = (), first: date = FIRST) -> dict[date, Decimal]:
    """In plain Python, what was ordered: by day."""
    found: dict[date, Decimal] = {}
    for order in range(days * _A_DAY):
        if order % 10 != 9:
            day = first + timedelta(days=order // _A_DAY)
            amount = Decimal(order % 97)
            found[day] = found.get(day, Decimal(0)) + (round(amount * _TAX, 2) if day in taxed else amount)
    return found


def a_table_of_others(walk: Walk) -> None:
    """A fact and a month of it, wrong for 90 days: planned, seen, approved, undone, and brought back."""
    size, wrong = walk.size, _last(walk.size.days, walk.size.wrong)
    walk.spark(_ORDERS, rows=size.days * _A_DAY)
    _begins(walk)
    walk.declares(_declared(walk, "v1"))
    walk.types("dataset", "check", "shop")
    walk.types("run", f"{FACT}+", "--days", _all(size.days))
    assert walk.published(FACT) == amounts(size.days)
    walk.declares(_declared(walk, "v1", "v2"))
    _mends(walk, wrong, before=amounts(size.days), after=amounts(size.days, set(wrong)), plan=f"{FACT}+")
    assert sum(walk.published(REPORT).values()) == sum(walk.published(FACT).values())


def a_table_that_they_have(walk: Walk) -> None:
    """A fact with years of history is taken over; 90 of its days are computed again, and undone."""
    size, wrong = walk.size, _last(walk.size.adopted, walk.size.wrong, LONG_AGO)
    walk.spark(_ORDERS, _HISTORY, first=LONG_AGO, rows=size.adopted * _A_DAY)
    _begins(walk)
    walk.declares(_declared(walk, "v1", "v2", months=False).replace("date(2025,", "date(2021,"))
    theirs = walk.folder / "others" / "history"
    walk.types("adopt", FACT, theirs, "--dry-run", BACKFILL_WRITERS="stopped")
    walk.types("adopt", FACT, theirs, BACKFILL_WRITERS="stopped")
    before, after = (amounts(size.adopted, taxed, LONG_AGO) for taxed in ((), set(wrong)))
    assert walk.published(FACT) == before
    _mends(walk, wrong, before=before, after=after, plan=FACT)


def a_folder_of_parquet(walk: Walk) -> None:
    """Others write a folder for each day; what is made of them is proposed."""
    trips = _trips(walk.size.rows)
    for day in sorted({each["day"] for each in trips}):
        file = walk.folder / "others" / "trips" / f"day={day}" / "trips.parquet"
        file.parent.mkdir(parents=True)
        rows = [{name: value for name, value in each.items() if name != "day"} for each in trips if each["day"] == day]
        pq.write_table(pa.Table.from_pylist(rows), file)
    by_day = Counter(each["day"] for each in trips)
    _proposed(walk, "trips", walk.folder / "others" / "trips", by_day, wider=_all(len(by_day)))


def csv_files(walk: Walk) -> None:
    """An export with semicolons and corrections lands."""
    sales, file = _sales(walk.size.rows), walk.folder / "sales.csv"
    with file.open("w", newline="") as written:
        writer = csv.DictWriter(written, list(sales[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(sales)
    _proposed(walk, "sales", file, _newest_by_day(sales))


def nested_json(walk: Walk) -> None:
    """Events with numbers, lists and structures, as a program writes them."""
    sales, file = _sales(walk.size.rows), walk.folder / "events.jsonl"
    file.write_text(
        "".join(
            json.dumps(
                {
                    **each,
                    "price": float(each["price"]),
                    "lines": [{"product": f"p{number}", "weight": number / 8} for number in range(2)],
                    "till": {"number": 7, "open": True},
                }
            )
            + "\n"
            for each in sales
        )
    )
    _proposed(walk, "events", file, _newest_by_day(sales))


def a_topic(walk: Walk, new_topic: Callable[[Sequence[Mapping[str, str]]], str]) -> None:
    """The example that ``init`` writes, filled from a topic. ``new_topic`` makes one with events: its address."""
    day = FIRST.replace(year=2026)
    events = [
        {
            "entry_id": str(number),
            "happened_at": f"{day}T10:00:00Z",
            "amount": f"{number % 50}.25",
            "sent_at": f"{day}T11:00:00Z",
        }
        for number in range(walk.size.rows)
    ]
    address = new_topic(events)
    _begins(walk)
    walk.proposed = lines_of((walk.folder / "shop" / "datasets" / "orders.py").read_text())
    walk.commands += 1
    walk.project("backfill", "stream", "raw_orders", "--from", address, "--from-beginning", "--available-now")
    walk.types("run", "bronze_orders+", "--days", day)
    assert walk.published(REPORT) == {day: sum((Decimal(each["amount"]) for each in events), Decimal(0))}


WAYS: Mapping[str, Callable[[Walk], None]] = {
    "a Delta table of others": a_table_of_others,
    "an adopted fact table": a_table_that_they_have,
    "a folder of Parquet": a_folder_of_parquet,
    "CSV": csv_files,
    "nested JSON": nested_json,
}
"""Without the topic, which needs a broker."""


def walked(folder: Path, commands: Path, size: Size, way: Callable[[Walk], None]) -> Walk:
    """A way from an empty folder to its end; what others do before is not counted."""
    folder.mkdir(parents=True)
    walk = Walk(Project(folder, commands), size)
    way(walk)
    walk.minutes = (time.monotonic() - walk.began) / 60
    return walk


def _begins(walk: Walk) -> None:
    walk.began = time.monotonic()
    walk.commands += 1
    walk.project("backfill", "init", ".", "shop")


def _mends(
    walk: Walk, wrong: DayRange, *, before: Mapping[date, Decimal], after: Mapping[date, Decimal], plan: str
) -> None:
    """The whole case, and each day looked at after each step."""
    planned = walk.types("plan", plan, "--days", wrong)["plan"]
    walk.types("run", planned, "--limits", "deviation=50%")
    assert walk.published(FACT) == before
    assert walk.types("diff", planned)
    walk.types("approve", planned, "--yes")
    assert walk.published(FACT) == after
    undone = walk.types("rollback", planned, "--yes")["publication"]
    assert walk.published(FACT) == before
    walk.types("rollback", undone, "--yes")
    assert walk.published(FACT) == after


def _proposed(walk: Walk, name: str, source: Path, rows: Mapping[date, int], wider: DayRange | None = None) -> None:
    """From what there is to a published report, with nothing written by hand; then of more days."""
    _begins(walk)
    walk.commands += 1
    told = walk.project("backfill", "dataset", "new", name, str(source))
    walk.proposed = lines_of((walk.folder / "shop" / "datasets" / f"{name}.py").read_text())
    walk.types_as_told(told)
    if wider:
        walk.types("run", f"+report_{name}", "--days", wider)
    found = DeltaTable(walk.folder / ".data" / "lakehouse" / f"report_{name}").to_pyarrow_table()
    by_day = Counter[date]()
    for row in found.to_pylist():
        by_day[row["day"]] += row["entries"]
    assert by_day == rows


def _declared(walk: Walk, *versions: str, months: bool = True) -> str:
    """The declaration of the guide, with the table of this walk."""
    text = Path(orders_of_others.__file__).read_text().replace(", current=False", "")
    blocks = [block for block in text.split("\n\n\n") if "def shop_at" not in block]
    left_out = [f'DailyOrders, "{version}"' for version in ("v1", "v2") if version not in versions]
    left_out += [] if months else ["MonthlyOrders"]
    kept = [block for block in blocks if not any(each in block for each in left_out)]
    return "\n\n\n".join(kept).replace("/lake/shop/orders", str(walk.folder / "others" / "orders")) + "\n"


def _all(days: int, first: date = FIRST) -> DayRange:
    return DayRange(first, first + timedelta(days=days - 1))


def _last(days: int, wrong: int, first: date = FIRST) -> DayRange:
    last = _all(days, first).last
    return DayRange(last - timedelta(days=wrong - 1), last)


def _trips(rows: int) -> list[dict[str, Any]]:
    return [
        {"trip_id": number, "fare": Decimal(number % 40) + Decimal("0.50"), "day": FIRST + timedelta(days=number % 7)}
        for number in range(rows)
    ]


def _sales(rows: int) -> list[dict[str, str]]:
    """Of three days; every fiftieth is corrected an hour later."""
    found = []
    for number in range(rows):
        at = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=number * 3 * 24 * 60 // rows)
        sale = {
            "sale_no": str(1_000 + number),
            "shelf": ("bread", "cake", "rolls")[number * number % 3],
            "price": f"{number % 40}.{number % 100:02d}",
            "sold_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "updated_at": f"{at:%Y-%m-%dT%H:%M:%S.250Z}",
        }
        later = f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        found += [sale, {**sale, "price": "1.00", "updated_at": later}] if number % 50 == 0 else [sale]
    return found


def _newest_by_day(sales: Sequence[Mapping[str, str]]) -> Counter[date]:
    newest = {each["sale_no"]: each for each in sales}.values()
    return Counter(date.fromisoformat(each["sold_at"][:10]) for each in newest)
