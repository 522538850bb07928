from __future__ import annotations

import json
from pathlib import Path

from backfill_assets.datasets import registry, sales_transforms_v1, sales_transforms_v2
from backfill_assets_tests.datasets.transform_source import PACKAGE, logic_of, names_in

PINS = Path(__file__).with_name("source_pins.json")


def test_the_logic_of_every_version_is_what_it_was() -> None:
    """A version that changes under its name makes history irreproducible, and nothing would be seen as stale."""
    pinned = json.loads(PINS.read_text())
    current = {
        f"{step.name}@{version.name}": logic_of(version.transform)
        for step in registry.steps()
        for version in step.versions
    }
    changed = sorted(name for name in current.keys() | pinned.keys() if current.get(name) != pinned.get(name))
    assert not changed, (
        f"The logic of {', '.join(changed)} is not what is pinned. Leave the version as it was, add a new version "
        f"beside it and make that the current one. A new version is pinned in {PINS.name}: "
        f"{json.dumps({name: current.get(name) for name in changed})}"
    )


def test_a_fingerprint_covers_what_a_transform_calls_and_refers_to() -> None:
    """Logic sits in shared functions, in contracts and in the source's declaration as much as in the transform."""
    used = names_in(sales_transforms_v1.bronze)
    for name in (
        "bronze._winners",
        "canonical.parsed",
        "canonical._PATTERNS",
        "contract._at_least",
        "sales_contracts.BronzeSales",
        "sales_contracts.TypedSales",
        "sales_transforms_v1.REFINEMENT",
    ):
        assert f"{PACKAGE}.{name}" in used, name
    assert f"{PACKAGE}.conversion.LONGEST_GAP_DAYS" in names_in(sales_transforms_v2.transactions)


def test_versions_that_differ_have_different_fingerprints() -> None:
    """Both call the same functions and differ in one argument."""
    assert logic_of(sales_transforms_v1.transactions) != logic_of(sales_transforms_v2.transactions)
