"""What is declared while a test runs: the examples, unless it declares something else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from backfill_assets.model import catalog
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Source, Step

if TYPE_CHECKING:
    import pytest

EXAMPLES = "backfill_assets.examples.datasets"


def declared() -> Catalog:
    """What commands of this process find."""
    return catalog.load(EXAMPLES)


def declare(monkeypatch: pytest.MonkeyPatch, *datasets: Dataset) -> None:
    """``datasets`` and the examples; one with the name of an example stands in its place."""
    names = {each.name for each in datasets}
    others = [each for each in declared().datasets if each.name not in names]
    found = Catalog.of([*others, *datasets])
    monkeypatch.setattr(catalog, "load", lambda _: found)


def declare_only(found: Catalog) -> None:
    """For the rest of this process."""
    vars(catalog)["load"] = lambda _: found


def catalog_of(steps: Iterable[Step]) -> Catalog:
    """Of steps that are in no dataset."""
    found, chosen = Catalog(), tuple(steps)
    # A cached property is read from there.
    vars(found)["steps"] = chosen
    return found


def source_named(name: str, fields: tuple[str, ...] = ("id",), **how: Any) -> Source:
    """A source of which nothing matters but its name, its fields, and how its files are written."""
    return Source(name, event_day_field="day", key_fields=("id",), version_field="version", fields=fields, **how)
