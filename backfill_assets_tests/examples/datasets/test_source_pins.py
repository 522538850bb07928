from __future__ import annotations

from dataclasses import replace

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.declaration import Version
from backfill_assets.model.logic import logic_of
from backfill_assets_tests.examples.datasets.source_pins import (
    FOLLOWED,
    current_pins,
    differences,
    read_pins,
    renew_pins,
)


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
    """Logic sits in shared functions, in contracts and in the source's declaration as much as in the transform.

    Of a refinement it is the query that workers are asked: what stands of raw, what is judged, and who wins.
    """
    used = parts(CATALOG.step("bronze_sales").version())
    assert {"standing", "lone_and_alike", "judged", "rejected", "_winners", "_newest_first", "_with_markers"} <= used
    assert {"parsed", "_LINE_END", "_PATTERNS", "_begins_with", "KINDS", "Refinement", "of_duckdb"} <= used
    used = parts(CATALOG.step("fact_sales_transactions").version("v2"))
    assert {"LONGEST_GAP_DAYS", "in_eur", "rates_as_of", "half_up_quotient", "with_completeness"} <= used


def test_versions_that_differ_have_different_fingerprints_and_what_is_said_of_a_table_is_no_logic() -> None:
    """Two that differ in one argument; a description, a rule or a name for people may change: the rows are the same."""
    one, other = (CATALOG.step("fact_sales_transactions").version(name) for name in ("v1", "v2"))
    assert logic_of(one).fingerprint != logic_of(other).fingerprint
    version = CATALOG.step("report_sea_temperature").version()
    assert logic_of(replace(version, description="Other words.")).fingerprint == logic_of(version).fingerprint


def test_what_a_dataset_is_declared_with_is_no_logic() -> None:
    """Its rules, limits and owners may change without a new pin, although versions are declared by its methods."""
    used = {name for step in CATALOG.steps for version in step.versions for name in parts(version)}
    assert not {"SEA", "SALES", "PRODUCTS", "FX_RATES"} & used


def parts(version: Version) -> set[str]:
    return set(logic_of(version, FOLLOWED).parts)
