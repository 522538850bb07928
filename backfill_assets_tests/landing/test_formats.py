"""What raw makes of a record is the same in whichever format it landed; a format of one's own needs one class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.errors import SourceUnreadable
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.landed_lines import landed_line
from backfill_assets.landing.landing_files import LandingFile, lines_query
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


@settings(max_examples=drawn(10), deadline=None)
@given(st.lists(sales, min_size=5, max_size=20))
def test_a_record_gives_the_same_row_in_json_and_in_csv(
    tmp_path_factory: pytest.TempPathFactory, some: Sequence[Sale]
) -> None:
    """With its tokens, its unknown fields, its day and its content hash."""
    folder = tmp_path_factory.mktemp("landed")
    key_file = land_key(folder, KEY)
    names = [*SALE, *UNKNOWN]
    lines_of_json = (json.dumps({name: each[name] for name in names}) for each in some)
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines_of_json), newline="")
    (folder / "a.csv").write_text(as_csv(names, some), newline="")
    lines = raw(JSON_SALES, folder / "a.jsonl", key_file)
    records = raw(in_format(JSON_SALES, Csv()), folder / "a.csv", key_file)
    place = ("source_file", "source_line")
    assert [without(row, *place) for row in records] == [without(row, *place) for row in lines]


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
