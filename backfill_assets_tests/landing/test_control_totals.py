"""What a source says that it sent is in a file beside what landed, and is compared with it to the last digit."""

from __future__ import annotations

import gzip
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.errors import SourceUnreadable
from backfill_assets.landing import control_totals
from backfill_assets.landing.control_totals import CONTROL
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.zone import LandingZone
from backfill_assets.model.landed_format import SourceOfFiles
from backfill_assets.quality.deliveries import Totals
from backfill_assets_tests.declared import source_named

DAY = date(2017, 3, 1)
SALES = source_named("sales")
LINES = (
    '{"store":"1","amount":"0.10"}',
    "",
    '{"store":"2","amount":0.2}',
    '{"store":"3","amount":"much"}',
    '{"store":"4","amount":"NaN"}',
    '{"store":"5"}',
    "[7]",
    "no JSON",
)


@pytest.fixture
def zone(tmp_path: Path) -> LandingZone:
    folder = tmp_path / "sales" / str(DAY)
    folder.mkdir(parents=True)
    for name, lines in (("a", LINES), ("b", ['{"amount":"1000000000000.01"}'])):
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return LandingZone(tmp_path)


def control(zone: LandingZone) -> Path:
    return zone.root / "sales" / str(DAY) / CONTROL


def test_all_lines_of_a_day_are_counted_and_their_numbers_added(zone: LandingZone) -> None:
    """Of all its files. What is no number counts as a line, and as 0."""
    paths = zone.paths(SALES)[DAY]
    assert control_totals.landed(zone, SALES, paths, ()) == Totals(rows=8)
    sums = {"amount": Decimal("1000000000000.31"), "store": Decimal(15)}
    assert control_totals.landed(zone, SALES, paths, sums) == Totals(rows=8, sums=sums)


def test_a_control_file_is_no_landed_file(zone: LandingZone) -> None:
    files = zone.paths(SALES)[DAY]
    assert control_totals.sent(zone, SALES, DAY) is None
    control(zone).write_text('{"rows": 8, "sums": {"amount": "1000000000000.31"}, "sender": "till"}')
    assert control_totals.sent(zone, SALES, DAY) == Totals(rows=8, sums={"amount": Decimal("1000000000000.31")})
    assert zone.paths(SALES)[DAY] == files
    assert not zone.strays(SALES)


def test_what_cannot_be_read_is_named_with_what_to_do(zone: LandingZone) -> None:
    for text in ("rows: 8", '{"sums": {}}', '{"rows": 1.5}'):
        control(zone).write_text(text)
        with pytest.raises(SourceUnreadable, match=r"_control\.json cannot be read") as refused:
            control_totals.sent(zone, SALES, DAY)
        assert '{"rows": 4025' in str(refused.value.hint)
    whole = zone.root / "sales" / str(DAY) / "a.jsonl.gz"
    whole.write_bytes(whole.read_bytes()[:-9])
    with pytest.raises(SourceUnreadable, match=r"a\.jsonl\.gz: truncated gzip"):
        control_totals.landed(zone, SALES, ["sales/2017-03-01/a.jsonl.gz"], ())


def test_totals_are_of_any_format_and_wherever_files_lie(tmp_path: Path) -> None:
    """A broken record counts as one, and as 0."""
    sales = SourceOfFiles(**vars(source_named("sales", ("store", "amount"))), format=Csv(), files="{day}.csv")
    folder = tmp_path / "sales"
    folder.mkdir()
    (folder / f"{DAY}.csv").write_text("store,amount,till\n1,0.10,5\n2,much,5\n3,0.2\n\n4,,0.1\n")
    (folder / f"_control_{DAY}.json").write_text('{"rows": 4}')
    zone = LandingZone(tmp_path)
    paths = zone.paths(sales)[DAY]
    assert control_totals.sent(zone, sales, DAY) == control_totals.landed(zone, sales, paths, ()) == Totals(rows=4)
    sums = {"amount": Decimal("0.10"), "till": Decimal("10.1")}
    assert control_totals.landed(zone, sales, paths, sums) == Totals(rows=4, sums=sums)
    assert not zone.strays(sales) and control_totals.sent(zone, sales, date(2017, 3, 2)) is None
