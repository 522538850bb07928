"""Synthetic data holds exactly the defects it says it holds: tests of the pipeline demand these numbers."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.products import LONGEST_CATALOGUE_GAP_DAYS
from backfill_assets.examples.sample.defects import DEFECTS
from backfill_assets.examples.sample.references import CATALOGUE_LEAD_DAYS, packaged_file
from backfill_assets.examples.sample.sales_line import FIELDS, sound_rows
from backfill_assets.examples.sample.synthetic import SyntheticSpec, planned_defects, synthesize
from backfill_assets.model.graph import missing_inputs
from backfill_assets_tests.examples.sample.landed_lines import fingerprint, landed_lines
from backfill_assets_tests.examples.sample.synthetic_tally import SyntheticTally

DAYS = DayRange.parse("2017-03-01..2017-03-12")


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SyntheticTally]:
    root = tmp_path_factory.mktemp("landing")
    return root, SyntheticTally(SyntheticSpec(DAYS, rows_per_day=40, seed=11, defects=dict.fromkeys(DEFECTS, 5)), root)


def accounted(root: Path) -> dict[date, Counter[str]]:
    """What a pipeline must make of the files: written down once more, independently of the generator."""
    counts: dict[date, Counter[str]] = defaultdict(Counter)
    versions: dict[str, list[tuple[str, date]]] = defaultdict(list)
    for path, texts in landed_lines(root, "sales").items():
        arrival = date.fromisoformat(path.split("/")[1])
        for row in map(_object, texts):
            day = _event_day(row, arrival)
            if day is None or not _is_valid(row):
                counts[day or arrival]["quarantined"] += 1
            else:
                versions[f"{row['basket_id']}-{row['product_id']}"].append((row["updated_at"], day))
    for known in versions.values():
        _account_versions(known, counts)
    return counts


def _account_versions(known: list[tuple[str, date]], counts: dict[date, Counter[str]]) -> None:
    newest = max(updated_at for updated_at, _ in known)
    for day in {day for _, day in known}:
        here = [updated_at for updated_at, other in known if other == day]
        counts[day]["deduplicated"] += len(here) - 1
        counts[day]["published" if newest in here else "superseded"] += 1


def _object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError:
        return {}
    return row if isinstance(row, dict) else {}


def _event_day(row: dict[str, Any], arrival: date) -> date | None:
    try:
        day = date.fromisoformat(row.get("transaction_timestamp", "")[:10])
    except ValueError:
        return None
    return day if abs((arrival - day).days) <= 30 else None


def _is_valid(row: dict[str, Any]) -> bool:
    whole, _, decimals = row["sales_value"].partition(".")
    return bool(row.get("basket_id") and row.get("product_id") and (whole + decimals).isdecimal())


def test_the_tally_is_what_the_files_hold(landed: tuple[Path, SyntheticTally]) -> None:
    """Per event day, every line ends in exactly one of the four states that accounting knows."""
    root, tally = landed
    expected = {day: +expectation.lines for day, expectation in tally.by_event_day.items()}
    assert expected == {day: +counts for day, counts in accounted(root).items()}


def test_totals_follow_from_the_counts_asked_for(landed: tuple[Path, SyntheticTally]) -> None:
    """Five of each: the arithmetic a reader of the tally does in the head."""
    _, tally = landed
    assert tally.made.defects == dict.fromkeys(DEFECTS, 5)
    assert tally.totals() == {
        "received": 12 * 40 + 5 * 5,
        "published": 12 * 40 - 5 * 5,
        "quarantined": 5 * 5,
        "deduplicated": 3 * 5,
        "superseded": 2 * 5,
    }
    assert tally.made.landed.lines["sales"] == sum(tally.by_arrival_day.values()) == tally.totals()["received"]


def test_rejected_lines_are_where_the_tally_says(landed: tuple[Path, SyntheticTally]) -> None:
    """Quarantine must name file and line; this is the list to compare it with."""
    root, tally = landed
    lines = landed_lines(root, "sales")
    assert Counter(rejected.defect for rejected in tally.rejected) == dict.fromkeys(
        ("malformed_amount", "missing_key", "absurd_date", "unreadable_date", "broken_line"), 5
    )
    for rejected in tally.rejected:
        text = lines[rejected.path][rejected.line - 1]
        assert (rejected.defect == "broken_line") == (_object(text) == {})


def newest_versions(root: Path) -> list[dict[str, Any]]:
    """The valid sales that landed, in the newest version of each."""
    newest: dict[str, dict[str, Any]] = {}
    for path, texts in landed_lines(root, "sales").items():
        for row in map(_object, texts):
            if _event_day(row, date.fromisoformat(path.split("/")[1])) and _is_valid(row):
                key = f"{row['basket_id']}-{row['product_id']}"
                newest[key] = max(newest.get(key, row), row, key=lambda r: str(r["updated_at"]))
    return list(newest.values())


def test_published_sales_are_those_of_the_newest_versions(landed: tuple[Path, SyntheticTally]) -> None:
    """Money by day and currency lets a test notice a wrong winner, which counts alone would not."""
    root, tally = landed
    newest = newest_versions(root)
    for day, expected in tally.by_event_day.items():
        sales: dict[str, Decimal] = defaultdict(Decimal)
        for row in newest:
            if row["transaction_timestamp"].startswith(str(day)):
                sales[row["currency"]] += Decimal(row["sales_value"])
        assert expected.published_sales() == dict(sales)


def test_published_lines_are_tallied_by_the_department_of_their_day(landed: tuple[Path, SyntheticTally]) -> None:
    """From the landed files alone: the entry of the product that was the newest on the day, or UNKNOWN."""
    root, tally = landed
    entries: dict[str, dict[str, str]] = defaultdict(dict)
    for texts in landed_lines(root, "products").values():
        for entry in map(_object, texts):
            entries[entry["product_id"]][entry["valid_from"]] = entry["department"]
    newest = newest_versions(root)
    counted: dict[date, Counter[str]] = defaultdict(Counter)
    for row in newest:
        day = row["transaction_timestamp"][:10]
        known = {since: name for since, name in entries[row["product_id"]].items() if since <= day}
        counted[date.fromisoformat(day)][known[max(known)] if known else "UNKNOWN"] += 1
    assert {day: expected.departments for day, expected in tally.by_event_day.items()} == dict(counted)
    assert sum(day.departments["UNKNOWN"] for day in tally.by_event_day.values()) > 0
    assert any(len(set(names.values())) > 1 for names in entries.values())


def test_moved_versions_stay_within_the_supersession_window(tmp_path: Path) -> None:
    """Ingestion looks seven days around: a version further away would be published twice."""
    spec = SyntheticSpec(
        DayRange.parse("2017-03-01..2017-03-25"), 20, 5, {"moved_version": 150, "overtaken_version": 150}
    )
    synthesize(spec, tmp_path)
    days: dict[str, list[date]] = defaultdict(list)
    for texts in landed_lines(tmp_path, "sales").values():
        for row in map(_object, texts):
            days[f"{row['basket_id']}-{row['product_id']}"].append(
                date.fromisoformat(row["transaction_timestamp"][:10])
            )
    distances = {(max(known) - min(known)).days for known in days.values() if len(known) > 1}
    assert sum(len(known) == 2 for known in days.values()) == 300
    assert min(distances) == 1 and max(distances) == 7


def test_equal_specs_give_equal_bytes_and_other_seeds_other_data(tmp_path: Path) -> None:
    """A seed in a bug report must be enough to see the bug again."""
    spec = SyntheticSpec(DayRange.parse("2017-03-01..2017-03-03"), 30, 1)
    roots = {name: tmp_path / name for name in ("a", "again", "other")}
    for name, root in roots.items():
        synthesize(spec if name != "other" else SyntheticSpec(spec.days, 30, 2), root)
    first, again, other = (fingerprint(root) for root in roots.values())
    assert first == again
    sales = [path for path in first if path.startswith("sales/")]
    assert len(sales) == 3 and all(first[path] != other[path] for path in sales)


def test_sound_rows_have_one_key_each_and_all_currencies() -> None:
    """A key that occurs twice by accident would be deduplicated, and every count would be off."""
    rows = [row for day in DAYS for row in sound_rows(day, 1_000, seed=3)]
    basket, product, currency = (FIELDS.index(name) for name in ("basket_id", "product_id", "currency"))
    assert len({(row[basket], row[product]) for row in rows}) == len(rows) == 12_000
    assert {row[currency] for row in rows} == {"USD", "EUR", "GBP", "JPY", "CHF"}


def test_defects_are_spread_over_all_days_that_can_hold_them() -> None:
    """Late rows need a later day to land on within the range; nothing else avoids the last day."""
    plan = planned_defects(SyntheticSpec(DAYS, 40, 1, {"late_row": 25, "broken_line": 25}))
    assert [plan[day].get("late_row", 0) > 0 for day in DAYS] == [True] * 11 + [False]
    assert {plan[day]["broken_line"] for day in DAYS} == {2, 3}


def test_what_cannot_be_made_is_refused_and_nothing_is_landed(tmp_path: Path) -> None:
    """Silently making fewer defects than asked for would make every exact test lie."""
    for day, defects, message in (
        ("2017-03-01", {"late_row": 1}, "late_row needs more days"),
        ("2017-03-01", {"moved_version": 1}, "moved_version needs more days"),
        ("2017-03-01", {"broken_line": 11}, "11 defects do not fit into the 10 rows of 2017-03-01"),
        ("2017-03-01", {"typo": 1}, "no defect 'typo'"),
        ("2017-03-01", {"broken_line": -1}, "cannot be negative"),
        ("1990-01-01", dict[str, int](), "no reference rates for all of 1990-01-01"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            synthesize(SyntheticSpec(DayRange.parse(day), 10, 1, defects), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("months", [("2017-03", "2017-09"), ("2017-09", "2017-03")])
def test_another_month_has_the_catalogue_that_its_reports_look_back_to(months: Sequence[str], tmp_path: Path) -> None:
    """A day of the catalogue that never came holds back all that looks over it, once an earlier one is published."""
    ranges = [DayRange.parse(f"{month}-01..{month}-03") for month in months]
    for days in ranges:
        synthesize(SyntheticSpec(days, 5, 1, {}), tmp_path)
    products = {date.fromisoformat(path.split("/")[1]) for path in landed_lines(tmp_path, "products")}
    wanted = [day for days in ranges for day in days]
    report = CATALOG.step("report_department_revenue")
    published = {"bronze_products": products, "fact_sales_transactions": wanted}
    assert missing_inputs(report, report.version(), wanted, published) == {}
    assert CATALOGUE_LEAD_DAYS == LONGEST_CATALOGUE_GAP_DAYS
    assert min(products) == date(2017, 3, 1), "nothing is demanded from before the first delivery"
    with_rows = {path.split("/")[1] for path, lines in landed_lines(tmp_path, "products").items() if lines}
    assert with_rows <= set(map(str, wanted)), "the other files have no rows"


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(InvalidRequest, match=r"not_there.*\n.*pip install 'backfill-assets\[examples\]'"):
        packaged_file("not_there", "rows.parquet")
    assert packaged_file("currency_converter", "eurofxref-hist.zip").is_file()
