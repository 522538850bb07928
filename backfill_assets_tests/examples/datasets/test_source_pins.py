from __future__ import annotations

from dataclasses import replace

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.examples.datasets.sales import SALES
from backfill_assets_tests.examples.datasets.source_pins import current_pins, differences, read_pins, renew_pins
from backfill_assets_tests.examples.datasets.transform_source import logic_of, names_in


def test_the_logic_of_every_version_is_what_it_was() -> None:
    """A version that changes under its name makes history irreproducible, and nothing would be seen as stale."""
    found = differences(read_pins(), current_pins())
    assert not found, found


def test_a_new_version_is_distinguished_from_one_that_changed() -> None:
    """The first is what everybody sees who adds a dataset; the second is what the pins are for."""
    pins = {"a@v1": "1", "b@v1": "2"}
    assert differences(pins, pins) == ""
    assert differences(pins, {**pins, "c@v1": "3"}) == "New: `make pins` pins\n  c@v1"
    changed = differences(pins, {**pins, "a@v1": "9"})
    assert changed.startswith("Changed: leave the version") and changed.endswith("\n  a@v1")
    assert "New:" not in changed
    assert differences(pins, {"a@v1": "1"}).startswith("Gone: put the version back")


def test_only_new_versions_are_pinned_without_being_named() -> None:
    """A changed one must be looked at first: the person who renews it says that its rows are the same."""
    pins, now = {"a@v1": "1", "gone@v1": "2"}, {"a@v1": "9", "new@v1": "3"}
    assert renew_pins(pins, now, set()) == {"a@v1": "1", "gone@v1": "2", "new@v1": "3"}
    assert renew_pins(pins, now, {"a@v1"}) == {"a@v1": "9", "gone@v1": "2", "new@v1": "3"}
    assert renew_pins(pins, now, {"gone@v1"}) == {"a@v1": "1", "new@v1": "3"}
    assert renew_pins(pins, now, {"all"}) == now


def test_a_fingerprint_covers_what_a_transform_calls_and_refers_to() -> None:
    """Logic sits in shared functions, in contracts and in the source's declaration as much as in the transform."""
    used = names_in(SALES.refinement())
    for name in (
        "model.refinement._winners",
        "model.canonical.parsed",
        "model.declaration._PATTERNS",
        "model.checks._in_range",
        "model.checks.KINDS",
        "model.refinement.Refinement",
        "examples.datasets.sales.BronzeSales",
        "examples.datasets.sales.SalesLine",
    ):
        assert f"backfill_assets.{name}" in used, name
    used = names_in(CATALOG.step("fact_sales_transactions").version("v2").transform)
    assert "backfill_assets.examples.datasets.sales.LONGEST_GAP_DAYS" in used
    assert "backfill_assets.examples.datasets.sales.FactSalesTransactions" in used
    assert "backfill_assets.model.landed_dataset.with_completeness" in used


def test_versions_that_differ_have_different_fingerprints_and_what_is_said_of_a_table_is_no_logic() -> None:
    """Two that differ in one argument; a description, a rule or a name for people may change: the rows are the same."""
    one, other = (CATALOG.step("fact_sales_transactions").version(name).transform for name in ("v1", "v2"))
    assert logic_of(one) != logic_of(other)
    step = CATALOG.step("report_sea_temperature")
    ruled = replace(step, tables=(replace(step.tables[0], description="Other words.", rules=()),))
    assert logic_of(ruled.version().transform) == logic_of(step.version().transform)


def test_what_a_dataset_is_declared_with_is_no_logic() -> None:
    """Its rules, limits and owners may change without a new pin, although versions are declared by its methods."""
    versions = [version for step in CATALOG.steps for version in step.versions]
    used = {name.rpartition(".")[2] for version in versions for name in names_in(version.transform)}
    assert "FactDailyRevenue" in used
    assert not {"SEA", "SALES", "PRODUCTS", "FX_RATES"} & used
