from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.raw_rows import raw_rows, raw_schema
from backfill_assets_tests.strategies.landed_sales import land, land_key, sale

KEY = "0123456789abcdef0123456789abcdef"


def _tokenised(household: str) -> str:
    return hmac.new(KEY.encode(), household.encode(), hashlib.sha256).hexdigest()


def _raw(spark: SparkSession, root: Path, files: list[str]) -> DataFrame:
    return raw_rows(spark, replace(SALES.source, first_day=date(2016, 12, 24)), files, land_key(root, KEY))


def _sales(spark: SparkSession, root: Path, *lines: str | dict[str, Any]) -> list[Row]:
    """What raw makes of these lines of one file, in their order: one job for all."""
    found = _raw(spark, root, [land(root, "sales", "2017-03-02", "one", lines)]).collect()
    assert [row.source_line for row in found] == list(range(1, len(lines) + 1))
    return found


def _rates(spark: SparkSession, file: str) -> dict[int, Row]:
    """Rows of rates by line; they have no personal fields, and can be read where no key is."""
    return {row.source_line: row for row in raw_rows(spark, FX_RATES.source, [file], "no.key").collect()}


def test_a_landed_line_becomes_text_with_its_provenance(spark: SparkSession, tmp_path: Path) -> None:
    """What raw keeps of a sound line: its text, where it came from, and no household id."""
    [row] = _sales(spark, tmp_path, sale(sales_value="1.50"))
    assert row.household_token == _tokenised("900")
    assert (row.sales_value, row.quantity, row.updated_at) == ("1.50", "1", "2017-03-01T23:59:59Z")
    assert (row.source_file, row.source_line) == ("sales/2017-03-02/one.jsonl.gz", 1)
    assert (row.arrival_day, row.day, row.day_is_arrival) == (date(2017, 3, 2), date(2017, 3, 1), False)
    assert (row.record_kind, row.rescued, row.unparsed_line, row.superseded_by_day) == ("received", None, None, None)


def test_the_schema_is_the_declared_one_with_and_without_files(spark: SparkSession, tmp_path: Path) -> None:
    """A day on which nothing landed must stage the same columns as any other."""
    names_and_types = [(field.name, field.dataType) for field in raw_schema(SALES.source).fields]
    full = _raw(spark, tmp_path, [land(tmp_path, "sales", "2017-03-02", "one", [sale()])])
    for rows in (full, _raw(spark, tmp_path, [])):
        assert [(field.name, field.dataType) for field in rows.schema.fields] == names_and_types


def test_line_numbers_are_right_in_many_small_files(spark: SparkSession, tmp_path: Path) -> None:
    """Spark packs small files into one task; a number that went on counting would point at the wrong line.

    A gzip of nothing and a file of no bytes have no lines, and are no error.
    """
    nothing = tmp_path / "sales" / "2017-03-01" / "nothing.jsonl.gz"
    files, expected = [land(tmp_path, "sales", "2017-03-01", "empty", []), str(nothing)], set()
    nothing.touch()
    for number in range(40):
        lines: list[str | dict[str, str | None]] = [sale(basket_id=f"{number}-{n}") for n in range(number % 7)]
        lines.insert(len(lines) // 2, "   ")
        files.append(land(tmp_path, "sales", f"2017-03-{number % 5 + 1:02d}", f"part+ %20[{number}]", lines))
        for position, line in enumerate(lines, start=1):
            if isinstance(line, dict):
                path = Path(files[-1]).relative_to(tmp_path).as_posix()
                expected.add((path, position, line["basket_id"]))
    found = _raw(spark, tmp_path, files).select("source_file", "source_line", "basket_id").collect()
    assert {tuple(row) for row in found} == expected
    assert len(found) == len(expected)


BROKEN = [
    *('{"store_id":"330"', "[1,2,3]", '[{"store_id":"330"}]', '"text"', "null", "not json"),
    *('{"store_id":"330"} trailing', '{"store_id":"330"}{"store_id":"331"}', '{"store_id":"330"},{"store_id":"331"}'),
    *('{"store_id":"330","store_id":"331"}', '{"store_id":"330"}]', '{"store_id":"330"}]{"store_id":"331"}'),
    *('{"store_id":"330"}],{"store_id":"331"}', '{"store_id":"330"}][{"store_id":"331"}]'),
    *('{"store_id":"330"}] trailing', '{"store_id":"330"},{}]'),
]


def test_a_line_that_is_not_one_object_is_kept_whole(spark: SparkSession, tmp_path: Path) -> None:
    """A parser that stops at the end of the first object, or picks one of two equal fields, loses what follows.

    Of a source with personal fields the line is withheld: the landed file has it, at the line that raw names.
    """
    rates = _rates(spark, land(tmp_path, "fx_rates", "2017-03-02", "one", BROKEN))
    assert [rates[number].unparsed_line for number in sorted(rates)] == BROKEN
    for line, row in zip(BROKEN, _sales(spark, tmp_path, *BROKEN), strict=True):
        assert row.unparsed_line == f"withheld: {len(line)} characters, HMAC-SHA-256 {_tokenised(line)}"
        assert (row.store_id, row.day, row.day_is_arrival) == (None, date(2017, 3, 2), True)


def test_a_line_that_is_no_text_is_kept_as_its_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Of another encoding, say. It would be in no column of text, and would stop all of its file.

    Brackets within an object are its own.
    """
    lines = ['{"currency":"USD","rate_day":"2017-03-01","rate":"1.0533"}', '{"currency":"USD]","rate":"[1],{}]"}']
    file = Path(land(tmp_path, "fx_rates", "2017-03-01", "one", lines))
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + "Müller".encode("latin-1") + b"\n"))
    sound, brackets, other = (row for _, row in sorted(_rates(spark, str(file)).items()))
    assert (sound.currency, sound.rate, sound.day) == ("USD", "1.0533", date(2017, 3, 1))
    assert (brackets.unparsed_line, brackets.currency, brackets.rate) == (None, "USD]", "[1],{}]")
    assert other.unparsed_line == f"base64: {base64.b64encode('Müller'.encode('latin-1')).decode()}"


def test_which_fields_a_line_has_is_found_for_every_set_of_them(spark: SparkSession, tmp_path: Path) -> None:
    """Declared fields, others, nulls and fields that come twice, in each combination of three: as Python reads them."""
    declared = FX_RATES.source.fields
    fields = [f'"{declared[0]}":"USD"', f'"{declared[1]}":null', f'"{declared[1]}":"2"', '"other":"3"', '"Rate":"4"']
    lines = ["{" + ",".join(some) + "}" for some in product(fields, repeat=3)] + ["{}", "{" + fields[0] + "}"]
    found = _rates(spark, land(tmp_path, "fx_rates", "2017-03-02", "one", lines))
    for number, line in enumerate(lines, start=1):
        pairs = json.loads(line, object_pairs_hook=list)
        values, row = dict(pairs), found[number]
        assert (row.unparsed_line == line) == (len(values) < len(pairs)), line
        if row.unparsed_line is None:
            assert {name: row[name] for name in declared} == {name: values.get(name) for name in declared}, line
            others = {name: value for name, value in values.items() if name not in declared}
            assert json.loads(row.rescued or "{}") == others, line


def test_a_broken_line_keeps_no_personal_value(spark: SparkSession, tmp_path: Path) -> None:
    """Personal identifiers are tokenised before raw, also in lines that are kept because they cannot be read."""
    lines = ['{"household_id":"900 7","store_id', '{"household_id": "900 7', '[{"household_id":"900 7"}]']
    for row in _sales(spark, tmp_path, *lines, '{"household_id" :"900 7"} x'):
        assert "900 7" not in str(row)


def test_unknown_fields_are_rescued(spark: SparkSession, tmp_path: Path) -> None:
    """A field that is added to the contract later can be recovered from history."""
    [row] = _sales(spark, tmp_path, sale(loyalty_tier='say "hi"', till="7"))
    assert json.loads(row.rescued) == {"loyalty_tier": 'say "hi"', "till": "7"}


MISPLACED: list[tuple[str, Any, str]] = [
    ("Household_ID", "900 7", "900 7"),
    ("household-id", "900 7", "900 7"),
    ("their householdId", "900 7", "900 7"),
    ("extra", {"household_id": "900 7"}, '{"household_id":"900 7"}'),
    ("extra", ["900 7"], '["900 7"]'),
    ("extra", "household_id=900 7", "household_id=900 7"),
    ("store_id", {"household_id": "900 7"}, '{"household_id":"900 7"}'),
]


def test_a_personal_field_in_another_place_is_a_token(spark: SparkSession, tmp_path: Path) -> None:
    """Of another case, or nested. It can still be joined by its token; other unknown fields are as they were."""
    rows = _sales(spark, tmp_path, *({**sale(), name: value, "till": "7"} for name, value, _ in MISPLACED))
    for (name, _, withheld), row in zip(MISPLACED, rows, strict=True):
        kept = {"store_id": row.store_id, **json.loads(row.rescued)}
        assert (kept[name], kept["till"]) == (_tokenised(withheld), "7"), name
        assert "900 7" not in str(row)


MOMENTS = [
    ("2017-03-02T23:59:59Z", date(2017, 3, 2), False),
    ("2017-03-03T00:00:00.000001Z", date(2017, 3, 3), False),
    ("2017-03-04T00:00:00Z", date(2017, 3, 2), True),
    ("2016-12-24T00:00:00Z", date(2016, 12, 24), False),
    ("2016-12-23T23:59:59Z", date(2017, 3, 2), True),
    ("2017-02-30T12:00:00Z", date(2017, 3, 2), True),
    ("2017-03-01 12:00", date(2017, 3, 2), True),
    ("", date(2017, 3, 2), True),
    (None, date(2017, 3, 2), True),
]


def test_an_unreadable_or_absurd_day_gives_way_to_the_arrival_day(spark: SparkSession, tmp_path: Path) -> None:
    """Such rows stay where a person looks for them instead of opening a partition in 2099."""
    rows = _sales(spark, tmp_path, *(sale(transaction_timestamp=moment) for moment, _, _ in MOMENTS))
    found = [(moment, row.day, row.day_is_arrival) for (moment, _, _), row in zip(MOMENTS, rows, strict=True)]
    assert found == MOMENTS


NUMBERS = {
    "12345678901234567890": "12345678901234567890",
    "1.50": "1.5",
    "9999999.99": "9999999.99",
    "12345678.90": "1.23456789E7",
    "0.0001": "1.0E-4",
    "0.12345678901234567890": "0.12345678901234568",
    "true": "true",
    "null": None,
}


def test_a_number_that_was_not_written_as_text_passes_through_a_float(spark: SparkSession, tmp_path: Path) -> None:
    """Which is why sources write text, and what the guide says of those that do not. Null is no value."""
    lines = [json.dumps(sale(sales_value="?")).replace('"?"', landed) for landed in NUMBERS]
    assert [row.sales_value for row in _sales(spark, tmp_path, *lines)] == list(NUMBERS.values())
