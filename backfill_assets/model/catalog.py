"""The datasets that a code location, a command or a build is given, and everything in them by name."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.dataset import Dataset, require_sound
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.graph import build_order, step_by_table
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.text import suggest_or_list


@dataclass(frozen=True, eq=False)
class Catalog:
    """Datasets, each after those that it reads. A typo in a name raises :class:`InvalidRequest` with the nearest."""

    datasets: tuple[Dataset, ...] = ()
    folder: Path | None = None
    """That of the package that the datasets are declared in, with all that they may be computed by."""

    @classmethod
    def of(cls, declared: Iterable[Dataset | LandedDataset], folder: Path | None = None) -> Catalog:
        """By name, but for what they read. Raises :class:`InvalidRequest` for a wrong declaration."""
        found = [each.dataset() if isinstance(each, LandedDataset) else each for each in declared]
        _require_own_tables(found)
        require_sound(found)
        return cls(_sort_by_reads(sorted(found, key=lambda dataset: dataset.name)), folder)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Every step of every dataset, each after all it reads in any of its versions."""
        return tuple(build_order([step for dataset in self.datasets for step in dataset.steps]))

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Every table, in the order of :attr:`steps`."""
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
            raise _unknown("dataset", name, found)
        return found[name]

    def dataset_of(self, table: str) -> Dataset:
        """The dataset that the table is in."""
        step = self.step(table)
        return next(dataset for dataset in self.datasets if step in dataset.steps)

    def steps_with(self, dataset: str) -> tuple[Step, ...]:
        """The steps of ``dataset`` and of the datasets in one chain with it, in the order of :attr:`steps`."""
        asked = self.dataset(dataset)
        chain = next(chain for chain in self.chains if asked in chain)
        names = {step.name for each in chain for step in each.steps}
        return tuple(step for step in self.steps if step.name in names)

    def step(self, table: str) -> Step:
        """The step that builds ``table``."""
        if table not in self._step_by_table:
            raise _unknown("table", table, self._step_by_table)
        return self._step_by_table[table]

    def table(self, name: str) -> Table:
        return next(table for table in self.step(name).tables if table.name == name)

    @cached_property
    def _step_by_table(self) -> Mapping[str, Step]:
        return step_by_table(self.steps)


def discover(module: ModuleType) -> Catalog:
    """The datasets at the top of ``module`` and, if it is a package, of each module in it.

    Raises :class:`InvalidRequest` for a module that cannot be imported, and for a wrong declaration.
    """
    values = {id(value): value for each in _modules(module) for value in vars(each).values()}.values()
    top = sys.modules[module.__name__.partition(".")[0]]
    folder = Path(top.__file__).resolve().parent if top.__file__ else None
    return Catalog.of((value for value in values if isinstance(value, Dataset | LandedDataset)), folder)


@cache
def load(name: str) -> Catalog:
    """:func:`discover` for the module or package called ``name``, which is looked for in the current folder too."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    return discover(_import_module(name))


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    yield module
    for found in sorted(pkgutil.iter_modules(getattr(module, "__path__", ())), key=lambda each: each.name):
        yield from _modules(_import_module(f"{module.__name__}.{found.name}"))


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
            hint="Each module beside a dataset is read as one: fix it, or move it to another folder.",
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


def _unknown(kind: str, name: str, known: Collection[str]) -> InvalidRequest:
    return InvalidRequest(f"There is no {kind} {name!r}.", hint=suggest_or_list(name, known, f"{kind.capitalize()}s"))
