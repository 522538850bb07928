from __future__ import annotations

import json
from collections.abc import Mapping, Set
from pathlib import Path

from backfill_assets.datasets import registry
from backfill_assets.datasets.sales import v1 as sales_v1
from backfill_assets.datasets.sales import v2 as sales_v2
from backfill_assets_tests.datasets.transform_source import logic_of, names_in

PINS = Path(__file__).with_name("source_pins.json")


def test_the_logic_of_every_version_is_what_it_was() -> None:
    """A version that changes under its name makes history irreproducible, and nothing would be seen as stale."""
    current = {
        f"{step.name}@{version.name}": logic_of(version.transform)
        for step in registry.steps()
        for version in step.versions
    }
    told = differences(json.loads(PINS.read_text()), current)
    assert not told, told


def differences(pinned: Mapping[str, str], current: Mapping[str, str]) -> str:
    """What a person does about versions that are new, changed or gone; no text if there are none."""
    new = _lines(current, current.keys() - pinned.keys())
    changed = _lines(current, {name for name in current.keys() & pinned.keys() if current[name] != pinned[name]})
    gone = _lines(pinned, pinned.keys() - current.keys())
    told = []
    if new:
        told.append(f"New: add these lines to {PINS.name}:\n{new}")
    if changed:
        told.append(
            "Changed: leave the version as it was, add a new version beside it and make that the current one. Only if "
            f"it computes the same rows, renew its line:\n{changed}"
        )
    if gone:
        told.append(f"Gone: put the version back, its days could not be computed again; or take out its line:\n{gone}")
    return "\n".join(told)


def _lines(pins: Mapping[str, str], names: Set[str]) -> str:
    return "\n".join(f'  "{name}": "{pins[name]}",' for name in sorted(names))


def test_a_new_version_is_distinguished_from_one_that_changed() -> None:
    """The first is what everybody sees who adds a dataset; the second is what the pins are for."""
    pins = {"a@v1": "1", "b@v1": "2"}
    assert differences(pins, pins) == ""
    assert differences(pins, {**pins, "c@v1": "3"}) == 'New: add these lines to source_pins.json:\n  "c@v1": "3",'
    changed = differences(pins, {**pins, "a@v1": "9"})
    assert changed.startswith("Changed: leave the version") and changed.endswith('\n  "a@v1": "9",')
    assert "New:" not in changed
    assert differences(pins, {"a@v1": "1"}).startswith("Gone: put the version back")


def test_a_fingerprint_covers_what_a_transform_calls_and_refers_to() -> None:
    """Logic sits in shared functions, in contracts and in the source's declaration as much as in the transform."""
    used = names_in(sales_v1.bronze)
    for name in (
        "model.refinement._winners",
        "model.canonical.parsed",
        "model.canonical._PATTERNS",
        "model.contract_columns._at_least",
        "datasets.sales.contracts.BronzeSales",
        "datasets.sales.contracts.TypedSales",
        "datasets.sales.v1.REFINEMENT",
    ):
        assert f"backfill_assets.{name}" in used, name
    assert "backfill_assets.datasets.sales.conversion.LONGEST_GAP_DAYS" in names_in(sales_v2.transactions)


def test_versions_that_differ_have_different_fingerprints() -> None:
    """Both call the same functions and differ in one argument."""
    assert logic_of(sales_v1.transactions) != logic_of(sales_v2.transactions)
