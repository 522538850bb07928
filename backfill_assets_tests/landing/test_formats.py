"""What raw makes of a record is the same in whichever format it landed; a format of one's own needs one class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.landed_lines import landed_line
from backfill_assets.landing.landing_files import LandingFile, lines_query
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_format import Format, SourceOfFiles
from backfill_assets_tests.strategies.how_many import drawn
from backfill_assets_tests.strategies.landed_sales import SALE, land_key

pytestmark = pytest.mark.data
KEY, ARRIVED = "0123456789abcdef0123456789abcdef", date(2017, 3, 2)
JSON_SALES = replace(SALES.source, first_day=date(2016, 12, 24))
UNKNOWN = ("till", "their household-id", "note")
Sale = Mapping[str, str | None]


def in_format(source: Source, format_: Format) -> SourceOfFiles:
    return SourceOfFiles(**vars(source), format=format_)


def raw(source: Source, path: Path, key_file: str) -> list[SimpleNamespace]:
    file = LandingFile(str(path), f"sales/{ARRIVED}/{path.name}", ARRIVED, path.stat().st_size)
    with lines_query(source, key_file).rows([file]) as rows:
        found = [SimpleNamespace(**row) for batch in rows for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row.source_line)


def as_csv(fields: Sequence[str], sales: Sequence[Sale]) -> str:
    """Each text between quotes: without them nothing is no text but no value."""
    rows = [dict(zip(fields, fields, strict=True)), *sales]
    texts = ((None if (text := row[name]) is None else text.replace('"', '""') for name in fields) for row in rows)
    return "".join(",".join("" if text is None else f'"{text}"' for text in row) + "\n" for row in texts)


odd = st.sampled_from(['"', ",", "a\nb", "a\r\nb", '{"household_id":"9"}', "[7", "", " ", "2017-03-01T10:00:00Z"])
values = st.none() | odd | st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=6)
sales = st.builds(
    lambda changed, others: {**SALE, **changed, **others},
    st.dictionaries(st.sampled_from(list(SALE)), values, max_size=4),
    st.fixed_dictionaries(dict.fromkeys(UNKNOWN, values)),
)


@pytest.mark.parametrize("format_", [Csv(), Parquet()], ids=["csv", "parquet"])
@settings(max_examples=drawn(5), deadline=None)
@given(some=st.lists(sales, min_size=5, max_size=20))
def test_a_record_gives_the_same_row_in_json_and_in_another_format(
    tmp_path_factory: pytest.TempPathFactory, format_: Format, some: Sequence[Sale]
) -> None:
    """With its tokens, its unknown fields, its day and its content hash."""
    folder = tmp_path_factory.mktemp("landed")
    key_file = land_key(folder, KEY)
    names = [*SALE, *UNKNOWN]
    lines_of_json = (json.dumps({name: each[name] for name in names}) for each in some)
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines_of_json), newline="")
    lines, records = raw(JSON_SALES, folder / "a.jsonl", key_file), folder / f"a{format_.endings[0]}"
    if format_ == Csv():
        records.write_text(as_csv(names, some), newline="")
    else:
        texts = {name: pa.array([each[name] for each in some], pa.string()) for name in names}
        pq.write_table(pa.table(texts), records, row_group_size=7)
    place = ("source_file", "source_line")
    found = raw(in_format(JSON_SALES, format_), records, key_file)
    assert [without(row, *place) for row in found] == [without(row, *place) for row in lines]


TYPED = Source(
    name="readings",
    event_day_field="seen_at",
    key_fields=("id",),
    version_field="seen_at",
    fields=("id", "seen_at", "amount", "about", "single", "sound", "born", "numbers", "words", "any", "till", "tags"),
    types={
        "id": "bigint",
        "seen_at": "timestamp",
        "amount": "decimal(18,3)",
        "about": "double",
        "single": "float",
        "sound": "boolean",
        "born": "date",
        "numbers": "array<double>",
        "words": "array<string>",
        "till": "struct<name:string,about:double,seen:array<bigint>>",
        "tags": "map<string,bigint>",
    },
)
TYPES = {
    "id": pa.int64(),
    "seen_at": pa.timestamp("us", "UTC"),
    "amount": pa.decimal128(20, 4),
    "about": pa.float64(),
    "single": pa.float32(),
    "sound": pa.bool_(),
    "born": pa.date32(),
    "numbers": pa.list_(pa.float64()),
    "words": pa.list_(pa.string()),
    "any": pa.int16(),
    "till": pa.struct(
        [("about", pa.float64()), ("name", pa.string()), ("gone", pa.int8()), ("seen", pa.list_(pa.int64()))]
    ),
    "tags": pa.map_(pa.string(), pa.int64()),
}
_finite = st.floats(allow_nan=False, allow_infinity=False)
_FIRST, _LAST = (datetime(year, 3, 4) for year in (1969, 2017))  # noqa: DTZ001 - as hypothesis wants bounds
_words = st.text(st.characters(codec="utf-8"), max_size=4)
_values = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(10**18) + 1, 10**18 - 1),
        "seen_at": st.none() | st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)),
        "amount": st.none() | st.decimals(-(10**12), 10**12, places=4),
        "about": st.none() | _finite,
        "single": st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
        "sound": st.none() | st.booleans(),
        "born": st.none() | st.dates(),
        "numbers": st.none() | st.lists(st.none() | _finite, max_size=3),
        "words": st.none() | st.lists(st.none() | _words, max_size=3),
        "any": st.none() | st.integers(-9, 9),
        "till": st.none()
        | st.fixed_dictionaries(
            {
                "about": st.none() | _finite,
                "name": st.none() | _words,
                "gone": st.none() | st.integers(-9, 9),
                "seen": st.none() | st.lists(st.integers(-9, 9), max_size=2),
            }
        ),
        "tags": st.none() | st.dictionaries(_words, st.none() | st.integers(-9, 9), max_size=3),
    }
)


@settings(max_examples=drawn(4), deadline=None)
@given(some=st.lists(_values, min_size=5, max_size=20))
def test_a_value_counts_the_same_in_json_and_in_parquet(
    tmp_path_factory: pytest.TempPathFactory, some: Sequence[Mapping[str, Any]]
) -> None:
    """A number is its digits in both, those of a decimal too many for its type included: the content hash is equal."""
    folder = tmp_path_factory.mktemp("landed")
    (folder / "a.jsonl").write_text("".join(f"{as_json(each)}\n" for each in some))
    columns = {name: pa.array([each[name] for each in some], kind) for name, kind in TYPES.items()}
    pq.write_table(pa.table(columns), folder / "a.parquet")
    lines, rows = raw(TYPED, folder / "a.jsonl", ""), raw(in_format(TYPED, Parquet()), folder / "a.parquet", "")
    otherwise_written = ("source_file", "amount", "seen_at", "words", "till", "tags")
    found, expected = ([without(row, *otherwise_written) for row in each] for each in (rows, lines))
    assert found == expected
    amounts = [each["amount"] for each in some]
    assert [row.amount for row in rows] == [None if amount is None else f"{amount:.4f}" for amount in amounts]


def as_json(values: Mapping[str, Any]) -> str:
    """Numbers by their digits."""
    shown = {name: value for name, value in values.items() if name != "amount"}
    shown["single"] = None if values["single"] is None else float(str(np.float32(values["single"])))
    for name in ("seen_at", "born"):
        shown[name] = None if values[name] is None else values[name].isoformat()
    text = json.dumps(shown)
    return text if values["amount"] is None else f'{text[:-1]}, "amount": {values["amount"]:.4f}}}'


def without(row: SimpleNamespace, *names: str) -> dict[str, object]:
    return {name: value for name, value in vars(row).items() if name not in names}


def test_a_broken_record_keeps_no_personal_value_and_is_shown_as_raw_has_it(tmp_path: Path) -> None:
    """As a line of JSON that is no object; a sound one is shown with its token."""
    source, zone = in_format(JSON_SALES, Csv()), LandingZone(tmp_path)
    path = tmp_path / "sales" / str(ARRIVED) / "a.csv"
    path.parent.mkdir(parents=True)
    nested = {**SALE, "store_id": '{"household_id":"900 7"}'}
    path.write_text(as_csv(list(SALE), [SALE]) + "900 7,broken\n" + as_csv(list(SALE), [nested]).partition("\n")[2])
    sound, broken, hidden = raw(source, path, land_key(tmp_path, KEY))
    assert "900 7" not in str(vars(hidden)) and hidden.basket_id == SALE["basket_id"]
    assert broken.unparsed_line.startswith("withheld: 12 characters, HMAC-SHA-256 ") and broken.source_line == 3
    assert "900 7" not in str(vars(broken)) and broken.household_token is None
    assert landed_line(zone, source, vars(broken)) == broken.unparsed_line
    shown = json.loads(landed_line(zone, source, vars(sound)) or "")
    assert shown == {**SALE, "household_id": sound.household_token}
    path.write_text("household_id,stor")
    assert landed_line(zone, source, vars(sound)) is None


def test_without_personal_fields_a_record_is_shown_as_it_landed(tmp_path: Path) -> None:
    plain = replace(JSON_SALES, fields=("a", "b"), personal_fields={}, rescued_fields=())
    path = tmp_path / "sales" / "2017-03-02" / "a.csv"
    path.parent.mkdir(parents=True)
    path.write_text("b,x\n1,\n")
    row = {"source_file": "sales/2017-03-02/a.csv", "source_line": 2, "unparsed_line": None}
    found = landed_line(LandingZone(tmp_path), in_format(plain, Csv()), row)
    assert json.loads(found or "") == {"a": None, "b": "1", "x": None}


def test_a_file_that_is_damaged_while_it_is_read_is_named(tmp_path: Path) -> None:
    """And not by the words of DuckDB, which reads from it."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"no gzip")
    with pytest.raises(SourceUnreadable, match=r"a\.csv\.gz: undecodable gzip"):
        raw(in_format(JSON_SALES, Csv()), path, land_key(tmp_path, KEY))
