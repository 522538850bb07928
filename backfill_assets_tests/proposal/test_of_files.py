"""From files as they are to a declaration: the dialect of CSV, words for a missing value, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.proposal.of_files import Proposed, proposed

pytestmark = pytest.mark.data

HEADER = "order_id;ordered_at;amount;state"
ROWS = [f"{n};2026-01-0{5 + n % 3}T10:00:00Z;{n}.50;{'open' if n % 2 else 'done'}" for n in range(1, 31)]


def of(folder: Path, name: str, *lines: str, encoding: str = "utf-8") -> Proposed:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes("\n".join([*lines, ""]).encode(encoding))
    return proposed("orders", "shop", folder / name)


def test_a_file_of_csv(tmp_path: Path) -> None:
    found = of(tmp_path, "orders.csv", HEADER, *ROWS)
    assert (found.landed_as, found.arrived) == ("2026-01-07/orders.csv", date(2026, 1, 7))
    assert found.days == DayRange.parse("2026-01-05..2026-01-07")
    assert 'format=Csv(delimiter=";")' in found.text and "order_id: int = Field(key=True" in found.text


def test_dialects(tmp_path: Path) -> None:
    """What is as usual is not said."""
    tabs = of(tmp_path, "a.tsv", *(each.replace(";", "\t") for each in (HEADER, *ROWS)))
    assert r'format=Csv(delimiter="\t")' in tabs.text and tabs.landed_as.endswith("/a.csv")
    commas = of(tmp_path, "b.csv", *(each.replace(";", ",") for each in (HEADER, *ROWS)))
    assert "format=Csv()" in commas.text
    latin = of(tmp_path, "c.csv", HEADER.replace("state", "größe"), *ROWS, encoding="latin-1")
    assert 'encoding="latin-1"' in latin.text and 'landed="größe"' in latin.text
    quoted = of(tmp_path, "d.csv", HEADER, *(each.replace("open", "'op;en'") for each in ROWS))
    assert """quote="'\"""" in quoted.text and '"op;en"' in quoted.text


def test_a_word_that_says_there_is_no_value(tmp_path: Path) -> None:
    """It is declared where a type follows from it."""
    found = of(tmp_path, "a.csv", HEADER, *(each.replace(";2.50;", ";NA;") for each in ROWS))
    assert 'null="NA"' in found.text
    assert "amount: Annotated[T.DecimalType, 18, 2] = Field( nullable=True" in " ".join(found.text.split())


def test_without_a_header_columns_are_asked_for(tmp_path: Path) -> None:
    found = of(tmp_path, "a.csv", *ROWS)
    assert 'columns=("column_1", "column_2", "column_3", "column_4")' in " ".join(found.text.split())
    assert "# QUESTION: what are its columns called?" in found.text
    words = of(tmp_path, "b.csv", "name,colour", "apple,red", "pear,green", "plum,blue")
    assert "columns=" not in words.text, "words that none of its rows has are a header"


def test_names_with_the_day(tmp_path: Path) -> None:
    for day in (5, 6):
        found = of(tmp_path, f"orders_2026010{day}.csv", HEADER, *ROWS)
    found = proposed("orders", "shop", tmp_path)
    assert 'files="orders_{day:%Y%m%d}.csv"' in found.text and found.landed_as == "orders_20260106.csv"
    assert "60 rows of orders_20260105.csv, orders_20260106.csv" in found.text


def test_days_after_the_arrival_are_no_event_days(tmp_path: Path) -> None:
    lines = [f"{HEADER};due_date", *(f"{each};2026-03-0{1 + n % 9}" for n, each in enumerate(ROWS))]
    found = of(tmp_path, "2026-01-07/a.csv", *lines)
    assert "ordered_at: datetime = Field(event_day=True" in found.text and found.landed_as == "2026-01-07/a.csv"
    late = of(tmp_path, "2026-01-01/a.csv", *lines)
    assert "event_day=True," not in late.text and late.days is None
    assert "# QUESTION: which field says the day a row belongs to?" in late.text


def test_rows_that_come_twice(tmp_path: Path) -> None:
    found = of(tmp_path, "a.csv", HEADER, *ROWS, *ROWS[:3])
    assert "tolerated_duplicates=3," in found.text and "# QUESTION: 3 rows repeat another one" in found.text
    assert "order_id: int = Field(key=True" in found.text


def test_json_lines_by_their_digits(tmp_path: Path) -> None:
    """Zstandard, fields that not all have, and a line that is none."""
    lines = [json.dumps({"id": n, "at": "2026-01-05T10:00:00Z", **({"x": n / 4} if n % 2 else {})}) for n in range(40)]
    with pa.output_stream(str(tmp_path / "a.jsonl.zst"), compression="zstd") as out:
        out.write("\n".join([*lines, "{broken", ""]).encode())
    found = proposed("orders", "shop", tmp_path / "a.jsonl.zst")
    assert "x: Annotated[T.DecimalType, 18, 2] = Field(nullable=True" in found.text
    assert "# QUESTION: why can 1 record of the sample not be read?" in found.text
    assert "40 rows of a.jsonl.zst" in found.text and found.landed_as == "2026-01-05/a.jsonl.zst"


def test_fields_that_are_one_but_for_case(tmp_path: Path) -> None:
    found = of(tmp_path, "a.jsonl", '{"id": 1, "ID": 2, "at": "2026-01-05"}')
    assert "# QUESTION: what is ID? There is a field of that name but for case" in found.text
    assert "\n    ID" not in found.text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "[1]", "one array"),
        ("a.csv", "", "no file to read|no record"),
        ("a.csv", "a,a\n1,2", "names 'a' twice"),
        ("a.jsonl", "nothing", "no record"),
        ("a.jsonl.gz", "nothing", "gzip"),
    ],
)
def test_what_is_no_sample_is_refused_in_words(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BackfillError, match=said) as refused:
        proposed("orders", "shop", tmp_path / name)
    assert refused.value.hint


def test_parquet_by_its_own_types(tmp_path: Path) -> None:
    """Texts are read for more than they are; numbers are what the file says, whatever they look like."""
    rows = pa.table(
        {
            "order_id": pa.array(range(40), pa.int32()),
            "ordered_at": pa.array([datetime(2026, 1, 5, 10, tzinfo=UTC)] * 40, pa.timestamp("us")),
            "price": pa.array([Decimal("1.50")] * 40, pa.decimal128(9, 4)),
            "weight": [1.0, 2.0] * 20,
            "zip": ["1067", "8033"] * 20,
            "due": ["2026-01-09"] * 40,
            "tags": [["a"], []] * 20,
            "part": [{"x": 1}, None] * 20,
        }
    )
    pq.write_table(rows, tmp_path / "orders_20260106.parquet")
    found = proposed("orders", "shop", tmp_path / "orders_20260106.parquet")
    assert 'format=Parquet(zone="UTC"),' in found.text and "# QUESTION: in which zone are moments" in found.text
    for declared in (
        "order_id: T.IntegerType = Field(key=True",
        "ordered_at: datetime = Field(event_day=True",
        "price: Annotated[T.DecimalType, 9, 4] = Field(",
        "weight: float = Field(",
        "zip: str = Field(",
        "due: date = Field(",
        "tags: list[str] = Field(",
        "part: str = Field(nullable=True",
    ):
        assert declared in found.text, declared
    assert 'files="orders_{day:%Y%m%d}.parquet"' in found.text and found.landed_as == "orders_20260106.parquet"
    aware = rows.set_column(1, "ordered_at", rows["ordered_at"].cast(pa.timestamp("us", "UTC")))
    pq.write_table(aware, tmp_path / "a.parquet")
    assert "format=Parquet()," in proposed("orders", "shop", tmp_path / "a.parquet").text


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidRequest, match="no file of Parquet"):
        proposed("orders", "shop", tmp_path / "a.parquet")
