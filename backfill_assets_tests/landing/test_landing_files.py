"""What raw makes of the lines of landed files, wherever they are read: one query, carried out here without a JVM."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.errors import BackfillError, LakehouseUnusable, SourceUnreadable
from backfill_assets.examples.datasets.fx_rates import FX_RATES
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing import compressed, line_reader
from backfill_assets.landing.landing_files import LandingFile, files_in, landing_tasks, lines_query
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.declaration import Source
from backfill_assets_tests.declared import source_named
from backfill_assets_tests.strategies.landed_sales import land, land_key, sale

pytestmark = pytest.mark.data
KEY = "0123456789abcdef0123456789abcdef"
ARRIVED = date(2017, 3, 2)


def _tokenised(household: str) -> str:
    return hmac.new(KEY.encode(), household.encode(), hashlib.sha256).hexdigest()


def landing_file(path: str | Path) -> LandingFile:
    """As a worker is given it."""
    *_, source, day, name = Path(path).parts
    return LandingFile(str(path), f"{source}/{day}/{name}", date.fromisoformat(day), Path(path).stat().st_size)


def raw(source: Source, files: Sequence[str | Path], key_file: str = "no.key") -> list[SimpleNamespace]:
    """The rows of ``files``, by file and line."""
    with lines_query(source, key_file).rows(map(landing_file, files)) as rows:
        found = [SimpleNamespace(**row) for batch in rows for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row.source_file, row.source_line))


def _sales(root: Path, *lines: str | dict[str, Any]) -> list[SimpleNamespace]:
    """What raw makes of these lines of one file, in their order."""
    source = replace(SALES.source, first_day=date(2016, 12, 24))
    found = raw(source, [land(root, "sales", str(ARRIVED), "one", lines)], land_key(root, KEY))
    assert [row.source_line for row in found] == list(range(1, len(lines) + 1))
    return found


def _rates(file: str | Path) -> dict[int, SimpleNamespace]:
    """Rows of rates by line; they have no personal fields, and can be read where no key is."""
    return {row.source_line: row for row in raw(FX_RATES.source, [file])}


def test_a_landed_line_becomes_text_with_its_provenance(tmp_path: Path) -> None:
    """What raw keeps of a sound line: its text, where it came from, and no household id."""
    [row] = _sales(tmp_path, sale(sales_value="1.50"))
    assert row.household_token == _tokenised("900")
    assert (row.sales_value, row.quantity, row.updated_at) == ("1.50", "1", "2017-03-01T23:59:59Z")
    assert (row.source_file, row.source_line) == ("sales/2017-03-02/one.jsonl.gz", 1)
    assert (row.arrival_day, row.day, row.day_is_arrival) == (date(2017, 3, 2), date(2017, 3, 1), False)
    assert (row.record_kind, row.rescued, row.unparsed_line, row.superseded_by_day) == ("received", None, None, None)


BROKEN = [
    *('{"store_id":"330"', "[1,2,3]", '[{"store_id":"330"}]', '"text"', "null", "not json"),
    *('{"store_id":"330"} trailing', '{"store_id":"330"}{"store_id":"331"}', '{"store_id":"330"},{"store_id":"331"}'),
    *('{"store_id":"330","store_id":"331"}', '{"store_id":"330"}]', '{"store_id":"330"}]{"store_id":"331"}'),
    *('{"store_id":"330"}],{"store_id":"331"}', '{"store_id":"330"}][{"store_id":"331"}]'),
    *('{"store_id":"330"}] trailing', '{"store_id":"330"},{}]'),
]


def test_a_line_that_is_not_one_object_is_kept_whole(tmp_path: Path) -> None:
    """A parser that stops at the end of the first object, or picks one of two equal fields, loses what follows.

    Of a source with personal fields the line is withheld: the landed file has it, at the line that raw names.
    """
    rates = _rates(land(tmp_path, "fx_rates", "2017-03-02", "one", BROKEN))
    assert [rates[number].unparsed_line for number in sorted(rates)] == BROKEN
    for line, row in zip(BROKEN, _sales(tmp_path, *BROKEN), strict=True):
        assert row.unparsed_line == f"withheld: {len(line)} characters, HMAC-SHA-256 {_tokenised(line)}"
        assert (row.store_id, row.day, row.day_is_arrival) == (None, date(2017, 3, 2), True)


def test_a_line_that_is_no_text_is_kept_as_its_bytes(tmp_path: Path) -> None:
    """Of another encoding, say. It would be in no column of text, and would stop all of its file.

    Brackets within an object are its own.
    """
    lines = ['{"currency":"USD","rate_day":"2017-03-01","rate":"1.0533"}', '{"currency":"USD]","rate":"[1],{}]"}']
    file = Path(land(tmp_path, "fx_rates", "2017-03-01", "one", lines))
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + "Müller".encode("latin-1") + b"\n"))
    sound, brackets, other = (row for _, row in sorted(_rates(str(file)).items()))
    assert (sound.currency, sound.rate, sound.day) == ("USD", "1.0533", date(2017, 3, 1))
    assert (brackets.unparsed_line, brackets.currency, brackets.rate) == (None, "USD]", "[1],{}]")
    assert other.unparsed_line == f"base64: {base64.b64encode('Müller'.encode('latin-1')).decode()}"


def test_which_fields_a_line_has_is_found_for_every_set_of_them(tmp_path: Path) -> None:
    """Declared fields, others, nulls and fields that come twice, in each combination of three: as Python reads them."""
    declared = FX_RATES.source.fields
    fields = [f'"{declared[0]}":"USD"', f'"{declared[1]}":null', f'"{declared[1]}":"2"', '"other":"3"', '"Rate":"4"']
    lines = ["{" + ",".join(some) + "}" for some in product(fields, repeat=3)] + ["{}", "{" + fields[0] + "}"]
    found = _rates(land(tmp_path, "fx_rates", "2017-03-02", "one", lines))
    for number, line in enumerate(lines, start=1):
        pairs = json.loads(line, object_pairs_hook=list)
        values, row = dict(pairs), found[number]
        assert (row.unparsed_line == line) == (len(values) < len(pairs)), line
        if row.unparsed_line is None:
            assert {name: vars(row)[name] for name in declared} == {name: values.get(name) for name in declared}, line
            others = {name: value for name, value in values.items() if name not in declared}
            assert json.loads(row.rescued or "{}") == others, line


def test_a_broken_line_keeps_no_personal_value(tmp_path: Path) -> None:
    """Personal identifiers are tokenised before raw, also in lines that are kept because they cannot be read."""
    lines = ['{"household_id":"900 7","store_id', '{"household_id": "900 7', '[{"household_id":"900 7"}]']
    for row in _sales(tmp_path, *lines, '{"household_id" :"900 7"} x'):
        assert "900 7" not in str(vars(row))


def test_unknown_fields_are_rescued(tmp_path: Path) -> None:
    """A field that is added to the contract later can be recovered from history."""
    [row] = _sales(tmp_path, sale(loyalty_tier='say "hi"', till="7"))
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


def test_a_personal_field_in_another_place_is_a_token(tmp_path: Path) -> None:
    """Of another case, or nested. It can still be joined by its token; other unknown fields are as they were."""
    rows = _sales(tmp_path, *({**sale(), name: value, "till": "7"} for name, value, _ in MISPLACED))
    for (name, _, withheld), row in zip(MISPLACED, rows, strict=True):
        kept = {"store_id": row.store_id, **json.loads(row.rescued)}
        assert (kept[name], kept["till"]) == (_tokenised(withheld), "7"), name
        assert "900 7" not in str(vars(row))


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


def test_an_unreadable_or_absurd_day_gives_way_to_the_arrival_day(tmp_path: Path) -> None:
    """Such rows stay where a person looks for them instead of opening a partition in 2099."""
    rows = _sales(tmp_path, *(sale(transaction_timestamp=moment) for moment, _, _ in MOMENTS))
    found = [(moment, row.day, row.day_is_arrival) for (moment, _, _), row in zip(MOMENTS, rows, strict=True)]
    assert found == MOMENTS


NUMBERS = {
    "12345678901234567890": "12345678901234567890",
    "1.50": "1.5",
    "9999999.99": "9999999.99",
    "12345678.90": "12345678.9",
    "0.0001": "0.0001",
    "0.12345678901234567890": "0.1234567890123456789",
    "true": "true",
    "null": None,
}


def test_a_number_that_was_not_written_as_text_is_what_its_digits_say(tmp_path: Path) -> None:
    """A source may write numbers as numbers: none of their digits is lost. Null is no value."""
    lines = [json.dumps(sale(sales_value="?")).replace('"?"', landed) for landed in NUMBERS]
    assert [row.sales_value for row in _sales(tmp_path, *lines)] == list(NUMBERS.values())


FILES: dict[str, tuple[bytes, list[tuple[int, str | None, str | None]]]] = {
    "ends": (
        b'{"currency":"a"}\n\r\n \t\r\n\n{"currency":"b"}\r\n{"currency":"c"}',
        [(1, "a", None), (5, "b", None), (6, "c", None)],
    ),
    "mark": (
        b'\xef\xbb\xbf{"currency":"a"}\n\xef\xbb\xbf{"currency":"b"}\n',
        [(1, "a", None), (2, None, '\ufeff{"currency":"b"}')],
    ),
    "no text": (
        b'{"currency":"a"}\n{"currency":"\xff"}\nM\xfcller\n\xed\xa0\x80\n\xff\n{"currency":"\xc3\xa9"}\n',
        [
            (1, "a", None),
            (2, None, "base64: eyJjdXJyZW5jeSI6Iv8ifQ=="),
            (3, None, "base64: TfxsbGVy"),
            (4, None, "base64: 7aCA"),
            (5, None, "base64: /w=="),
            (6, "\u00e9", None),
        ],
    ),
    "other blanks": (b" \xc2\xa0\n\x0b\n\xff ", [(1, None, " \xa0"), (2, None, "\x0b"), (3, None, "base64: /yA=")]),
    "of Windows": (
        b'{"currency":"a"}\r{"currency":"b"}\n\xe2\x80\xa8{}\n\x00\n\x85\n',
        [
            (1, None, '{"currency":"a"}\r{"currency":"b"}'),
            (2, None, "\u2028{}"),
            (3, None, "\x00"),
            (4, None, "base64: hQ=="),
        ],
    ),
    "empty": (b"", []),
    "only a mark": (b"\xef\xbb\xbf", []),
    "only ends": (b"\n\n", []),
}
"""What is in a file; and of each row its line, its currency, and the line if it is no object."""


def test_lines_end_at_line_feeds_alone_and_a_file_may_begin_with_a_mark(tmp_path: Path) -> None:
    """A gzipped file may have any number of members, whose ends are no ends of lines."""
    for name, (content, expected) in FILES.items():
        path = tmp_path / "fx_rates" / str(ARRIVED) / f"{name}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content[:20]) + gzip.compress(content[20:]))
        found = [(number, row.currency, row.unparsed_line) for number, row in _rates(path).items()]
        assert found == expected, name


# ------------------------------------------------------------------ files


MANY, FEW = 40_000, 1_000


def damage(path: str | Path) -> None:
    """In its second half."""
    held = Path(path).read_bytes()
    at = len(held) * 3 // 4
    scribbled = bytes(255 - byte for byte in held[at : at + 200])
    Path(path).write_bytes(held[:at] + scribbled + held[at + 200 :])


def test_a_file_that_is_damaged_in_the_middle_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if rows of others before it were given: then it is no error of DuckDB's own any more."""
    for module in (line_reader, compressed):
        monkeypatch.setattr(module, "AT_ONCE", 1 << 16)
    many = [f'{{"currency":"{number}"}}' for number in range(MANY)]
    files = [landing_file(land(tmp_path, "fx_rates", str(ARRIVED), name, many)) for name in ("a", "b")]
    given = list[int]()

    def count() -> None:
        with lines_query(FX_RATES.source, "no.key").rows(files, FEW) as rows:
            for batch in rows:
                given.append(batch.num_rows)

    damage(files[1].path)
    with pytest.raises(SourceUnreadable, match=r"b\.jsonl\.gz: undecodable gzip"):
        count()
    assert given.count(FEW) > 1
    given.clear()
    Path(files[1].path).unlink()
    with pytest.raises(SourceUnreadable, match=r"b\.jsonl\.gz cannot be read: No such file"):
        count()
    assert given


@pytest.mark.parametrize(("key", "says"), [(None, "cannot be read"), ("short", "fewer than 16")])
def test_a_key_that_cannot_be_used_is_named(tmp_path: Path, key: str | None, says: str) -> None:
    """Not even a source whose lines name nobody is read with it, and the key is not shown."""
    file = land(tmp_path, "sales", str(ARRIVED), "one", [sale()])
    path = land_key(tmp_path, key) if key else str(tmp_path / "token.key")
    with pytest.raises(LakehouseUnusable, match=rf"token\.key.* {says}") as refused:
        raw(SALES.source, [file], path)
    assert "short" not in str(refused.value)


def test_no_query_and_no_task_has_the_key(tmp_path: Path) -> None:
    """They are in plans, logs and pickles; who carries them out reads the key from its file."""
    query = lines_query(SALES.source, land_key(tmp_path, KEY))
    assert KEY not in repr(query) and query.token_key_file.endswith("token.key")
    assert lines_query(FX_RATES.source, "token.key").token_key_file == ""


def test_small_files_of_a_day_share_a_task_and_large_ones_begin(tmp_path: Path) -> None:
    sizes = {"2017-03-01/a": 3, "2017-03-01/b": 3_999_000, "2017-03-01/c": 3_000, "2017-03-02/d": 9_000_000}
    files = [LandingFile(name, f"sales/{name}", date.fromisoformat(name[:10]), size) for name, size in sizes.items()]
    assert [[file.path[-1] for file in task] for task in landing_tasks(reversed(files))] == [["d"], ["a", "b"], ["c"]]


def test_a_link_that_leads_out_of_the_landing_zone_is_not_followed(tmp_path: Path) -> None:
    landed = land(tmp_path / "landing", "sales", str(ARRIVED), "one", [sale()])
    zone = LandingZone(tmp_path / "landing")
    (file,) = zone.files(source_named("sales"), [ARRIVED])
    assert files_in(zone, [file]) == [landing_file(landed)]
    elsewhere = Path(landed).rename(tmp_path / "elsewhere.gz")
    Path(landed).symlink_to(elsewhere)
    with pytest.raises(BackfillError, match="leads out of the landing zone"):
        files_in(zone, [file])
