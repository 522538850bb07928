"""All declared datasets, and everything in them by name."""

from __future__ import annotations

from collections.abc import Collection

from backfill_assets.datasets.chains import chains
from backfill_assets.datasets.fx_rates import FX_DATASET
from backfill_assets.datasets.products import PRODUCTS_DATASET
from backfill_assets.datasets.sales.dataset import SALES_DATASET
from backfill_assets.datasets.sea_temperatures import SEA_TEMPERATURES_DATASET
from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Dataset, Step, Table
from backfill_assets.model.declaration_check import require_sound
from backfill_assets.model.graph import build_order, step_by_table
from backfill_assets.text import suggest_or_list

_DATASETS = (
    FX_DATASET,
    PRODUCTS_DATASET,
    SALES_DATASET,
    SEA_TEMPERATURES_DATASET,
)
require_sound(_DATASETS)


def datasets() -> tuple[Dataset, ...]:
    return _DATASETS


def dataset_named(name: str) -> Dataset:
    """The dataset called ``name``; a typo raises :class:`InvalidRequest` with the nearest name."""
    found = {each.name: each for each in _DATASETS}
    if name not in found:
        raise _unknown("dataset", name, found)
    return found[name]


def steps() -> tuple[Step, ...]:
    """Every step of every dataset, each after all it reads in any of its versions."""
    return tuple(build_order([step for dataset in _DATASETS for step in dataset.steps]))


def steps_with(dataset: str) -> tuple[Step, ...]:
    """The steps of ``dataset`` and of the datasets in one chain with it, in the order of :func:`steps`.

    A typo raises :class:`InvalidRequest` with the nearest name.
    """
    asked = dataset_named(dataset)
    chain = next(chain for chain in chains(_DATASETS) if asked in chain)
    names = {step.name for each in chain for step in each.steps}
    return tuple(step for step in steps() if step.name in names)


def tables() -> tuple[Table, ...]:
    """Every table, in the order of :func:`steps`."""
    return tuple(table for step in steps() for table in step.tables)


def table(name: str) -> Table:
    """The table called ``name``; a typo raises :class:`InvalidRequest` with the nearest name."""
    return next(table for table in step(name).tables if table.name == name)


def step(name: str) -> Step:
    """The step that builds the table ``name``; a typo raises :class:`InvalidRequest` with the nearest name."""
    found = step_by_table(steps())
    if name not in found:
        raise _unknown("table", name, found)
    return found[name]


def _unknown(kind: str, name: str, known: Collection[str]) -> InvalidRequest:
    return InvalidRequest(f"There is no {kind} {name!r}.", hint=suggest_or_list(name, known, f"{kind.capitalize()}s"))
