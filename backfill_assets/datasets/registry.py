"""All declared datasets, and everything in them by name.

A module of this folder, or of a folder in it, that has a :class:`LandedDataset` or a :class:`Dataset` at its top is
registered by being there.
"""

from __future__ import annotations

import importlib
import pkgutil
import traceback
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from types import ModuleType

from backfill_assets import datasets as folder
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.declaration import Dataset, Step, Table
from backfill_assets.model.declaration_check import require_sound
from backfill_assets.model.graph import build_order, step_by_table
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.text import suggest_or_list


def discover(package: ModuleType) -> tuple[Dataset, ...]:
    """The datasets of all modules of ``package``, by name, each after those that it reads.

    Raises :class:`InvalidRequest` for a module that cannot be imported, and for a wrong declaration.
    """
    values = {id(value): value for module in _modules(package) for value in vars(module).values()}.values()
    found = [value.dataset() for value in values if isinstance(value, LandedDataset)]
    found += [value for value in values if isinstance(value, Dataset)]
    _require_own_tables(found)
    require_sound(found)
    return _sort_by_reads(sorted(found, key=lambda dataset: dataset.name))


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in sorted(pkgutil.iter_modules(package.__path__, f"{package.__name__}."), key=lambda each: each.name):
        if found.name != __name__:
            module = _import_module(found.name)
            yield module
            yield from _modules(module) if found.ispkg else ()


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except BackfillError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        # A syntax error says itself where it is.
        where = "" if isinstance(error, SyntaxError) else f" ({at.filename}, line {at.lineno})"
        raise InvalidRequest(
            f"{name} cannot be imported: {type(error).__name__}: {error}{where}.",
            hint="Each module in backfill_assets/datasets/ declares a dataset: fix it, or move it to another folder.",
        ) from error


def _require_own_tables(datasets: Sequence[Dataset]) -> None:
    counts = Counter(name for dataset in datasets for name in {dataset.name} | _names(dataset))
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise InvalidRequest(
            f"Two datasets have one name, or tables of one name: {', '.join(twice)}.",
            hint="A name is a folder: give each dataset and each table its own.",
        )


def _sort_by_reads(datasets: Sequence[Dataset]) -> tuple[Dataset, ...]:
    """``datasets`` in their order, but each after those it reads."""
    found: list[Dataset] = []
    reached: set[str] = set()

    def add(dataset: Dataset) -> None:
        if dataset.name not in reached:
            reached.add(dataset.name)
            for other in (each for each in datasets if _reads(dataset) & _names(each)):
                add(other)
            found.append(dataset)

    for dataset in datasets:
        add(dataset)
    return tuple(found)


def chains(datasets: Sequence[Dataset]) -> tuple[tuple[Dataset, ...], ...]:
    """Datasets by what they read of each other, directly or not; raises when those of a chain begin on other days."""
    found: list[tuple[Dataset, ...]] = []
    for dataset in datasets:
        touching = [chain for chain in found if any(_read_each_other(dataset, other) for other in chain)]
        joined = tuple(each for each in datasets if each is dataset or any(each in chain for chain in touching))
        found = [chain for chain in found if chain not in touching] + [joined]
    for chain in found:
        _require_one_beginning(chain)
    return tuple(found)


def _read_each_other(one: Dataset, other: Dataset) -> bool:
    return bool(_reads(one) & _names(other) or _reads(other) & _names(one))


def _reads(dataset: Dataset) -> set[str]:
    return {reads.table for step in dataset.steps for version in step.versions for reads in version.reads}


def _names(dataset: Dataset) -> set[str]:
    return {table.name for table in dataset.tables}


def _require_one_beginning(chain: Sequence[Dataset]) -> None:
    if len({dataset.first_day for dataset in chain}) > 1:
        begun = ", ".join(f"{dataset.name} on {dataset.first_day}" for dataset in chain)
        raise InvalidRequest(
            f"Datasets that read each other begin on different days: {begun}.",
            hint="Give them the same first_day: one run carries a range through all of them.",
        )


_DATASETS = discover(folder)


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
