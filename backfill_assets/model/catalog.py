from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.declared_wrong import import_refused, names_written
from backfill_assets.model.graph import build_order, step_by_table
from backfill_assets.model.left_out import (
    LeftOut,
    begins_elsewhere,
    names_of,
    reads_of,
    refused_at_once,
    sound_datasets,
)
from backfill_assets.text import suggest_or_list


@dataclass(frozen=True, eq=False)
class Catalog:
    """Datasets, each after those it reads. An unknown name raises :class:`InvalidRequest`, a left-out one its
    reason.
    """

    datasets: tuple[Dataset, ...] = ()
    folder: Path | None = None
    """The top-level package of the datasets."""
    left_out: tuple[LeftOut, ...] = ()

    @classmethod
    def of(cls, declared: Iterable[Dataset | DeclaredTables], folder: Path | None = None) -> Catalog:
        found = cls.of_sound(declared, folder)
        if found.left_out:
            raise found.left_out[0].error
        return found

    @classmethod
    def of_sound(
        cls,
        declared: Iterable[Dataset | DeclaredTables],
        folder: Path | None = None,
        left_out: Iterable[LeftOut] = (),
    ) -> Catalog:
        found, gone = sound_datasets(declared, left_out)
        return cls(_sort_by_reads(sorted(found, key=lambda dataset: dataset.name)), folder, tuple(gone))

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        return tuple(build_order([step for dataset in self.datasets for step in dataset.steps]))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        return tuple(table for step in self.steps for table in step.tables)

    @cached_property
    def table_names(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.tables)

    @cached_property
    def chains(self) -> tuple[tuple[Dataset, ...], ...]:
        return chains(self.datasets)

    def dataset(self, name: str) -> Dataset:
        found = {each.name: each for each in self.datasets}
        if name not in found:
            raise self._unknown("dataset", name, found)
        return found[name]

    def dataset_of(self, table: str) -> Dataset:
        step = self.step(table)
        return next(dataset for dataset in self.datasets if step in dataset.steps)

    def steps_with(self, dataset: str) -> tuple[Step, ...]:
        """Includes all datasets in one chain with it."""
        asked = self.dataset(dataset)
        chain = next(chain for chain in self.chains if asked in chain)
        names = {step.name for each in chain for step in each.steps}
        return tuple(step for step in self.steps if step.name in names)

    def step(self, table: str) -> Step:
        if table not in self._step_by_table:
            raise self._unknown("table", table, self._step_by_table)
        return self._step_by_table[table]

    def table(self, name: str) -> Table:
        return next(table for table in self.step(name).tables if table.name == name)

    @cached_property
    def _step_by_table(self) -> Mapping[str, Step]:
        return step_by_table(self.steps)

    @cached_property
    def tables_of_tokens(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.steps if step.source and step.source.personal_fields)

    def refuse_left_out(self, name: str) -> None:
        if gone := self._left_out_for(name):
            raise gone.error

    def _left_out_for(self, name: str) -> LeftOut | None:
        return next((each for each in self.left_out if name in each.names), None)

    def _unknown(self, kind: str, name: str, known: Collection[str]) -> BackfillError:
        if gone := self._left_out_for(name):
            return gone.error
        hint = suggest_or_list(name, known, f"{kind.capitalize()}s")
        return InvalidRequest(f"There is no {kind} {name!r}.", hint=" ".join([hint, *map(str, self.left_out)]))


def discover(module: ModuleType) -> Catalog:
    """Searches submodules and leaves out wrong datasets; raises if none remains."""
    failed: list[LeftOut] = []
    values = {id(value): value for each in _modules(module, failed) for value in vars(each).values()}.values()
    top = sys.modules[module.__name__.partition(".")[0]]
    folder = Path(top.__file__).resolve().parent if top.__file__ else None
    declared = (value for value in values if isinstance(value, Dataset | DeclaredTables))
    found = Catalog.of_sound(declared, folder, failed)
    if found.left_out and not found.datasets:
        raise refused_at_once(found.left_out)
    return found


def look_in_current_folder() -> None:
    """Console scripts lack it on ``sys.path``."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


@cache
def load(name: str) -> Catalog:
    look_in_current_folder()
    return discover(_import_module(name))


def _modules(module: ModuleType, failed: list[LeftOut]) -> Iterator[ModuleType]:
    yield module
    for found in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda each: each.name):
        name = f"{module.__name__}.{found.name}"
        try:
            imported = _import_module(name)
        except BackfillError as error:
            failed.append(LeftOut(name, names_written(name), error))
        else:
            yield from _modules(imported, failed)


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise import_refused(name, error) from error


def _sort_by_reads(datasets: Sequence[Dataset]) -> tuple[Dataset, ...]:
    found: list[Dataset] = []
    reached: set[str] = set()

    def add(dataset: Dataset) -> None:
        if dataset.name not in reached:
            reached.add(dataset.name)
            for other in (each for each in datasets if reads_of(dataset) & names_of(each)):
                add(other)
            found.append(dataset)

    for dataset in datasets:
        add(dataset)
    return tuple(found)


def chains(datasets: Sequence[Dataset]) -> tuple[tuple[Dataset, ...], ...]:
    """Groups that read each other; raises if one has several first days."""
    found: list[tuple[Dataset, ...]] = []
    for dataset in datasets:
        touching = [chain for chain in found if any(_read_each_other(dataset, other) for other in chain)]
        joined = tuple(each for each in datasets if each is dataset or any(each in chain for chain in touching))
        found = [chain for chain in found if chain not in touching] + [joined]
    for chain in found:
        _require_one_beginning(chain)
    return tuple(found)


def _read_each_other(one: Dataset, other: Dataset) -> bool:
    return bool(reads_of(one) & names_of(other) or reads_of(other) & names_of(one))


def _require_one_beginning(chain: Sequence[Dataset]) -> None:
    if len({dataset.first_day for dataset in chain}) > 1:
        raise begins_elsewhere(chain)
