"""Wrong datasets count as not declared; asking by name raises why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.dataset import Dataset, require_sound
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.declared_wrong import dataset_refused


@dataclass(frozen=True)
class LeftOut:
    what: str
    names: frozenset[str]
    error: BackfillError

    def __str__(self) -> str:
        return f"{self.what[:1].upper()}{self.what[1:]} is left out: {self.error.message}"


def refused_at_once(left_out: Sequence[LeftOut]) -> BackfillError:
    if len(left_out) == 1:
        return left_out[0].error
    return InvalidRequest("\n".join(["Nothing is declared soundly:", *(f"  {each.error}" for each in left_out)]))


def sound_datasets(
    declared: Iterable[Dataset | DeclaredTables], left_out: Iterable[LeftOut] = ()
) -> tuple[Sequence[Dataset], Sequence[LeftOut]]:
    """Leaves out readers of something left out."""
    found: list[Dataset] = []
    gone = list(left_out)
    for each in declared:
        if isinstance(each, Dataset):
            found.append(each)
            continue
        try:
            found.append(each.dataset())
        except Exception as error:
            said = error if isinstance(error, BackfillError) else dataset_refused(each.name, error)
            gone.append(LeftOut(f"the dataset {each.name}", frozenset(each.names), said))
    judges: tuple[Callable[[Sequence[Dataset]], Iterator[LeftOut]], ...] = (_twice, _unsound, _in_a_circle, _begun)
    changed = True
    while changed:
        readers = [*_readers(found, gone)]
        wrong = readers or next((seen for judge in judges if (seen := [*judge(found)])), [])
        gone, changed = [*gone, *wrong], bool(wrong)
        stay: list[Dataset] = []
        for dataset in found:
            try:
                stay += _without(dataset, wrong)
            except BackfillError as error:
                gone.append(_whole(dataset, error))
        found = stay
    return found, gone


def _without(dataset: Dataset, gone: Sequence[LeftOut]) -> Iterator[Dataset]:
    names = {name for each in gone for name in each.names}
    steps = tuple(step for step in dataset.steps if names.isdisjoint(step.table_names))
    if steps == dataset.steps:
        yield dataset
    elif steps and dataset.name not in names:
        yield replace(dataset, steps=steps)


def _whole(dataset: Dataset, error: BackfillError) -> LeftOut:
    return LeftOut(f"the dataset {dataset.name}", frozenset({dataset.name, *names_of(dataset)}), error)


def _readers(datasets: Sequence[Dataset], gone: Sequence[LeftOut]) -> Iterator[LeftOut]:
    by_name = {name: each for each in reversed(gone) for name in each.names}
    for step in (step for dataset in datasets for step in dataset.steps):
        read = [reads.table for version in step.versions for reads in version.reads if reads.table in by_name]
        if read:
            cause = by_name[read[0]].error
            words = f"{step.name} reads {read[0]}, which is left out: {cause.message}"
            yield LeftOut(
                " and ".join(step.table_names), frozenset(step.table_names), InvalidRequest(words, hint=cause.hint)
            )


def _twice(datasets: Sequence[Dataset]) -> Iterator[LeftOut]:
    counts = Counter(name for dataset in datasets for name in {dataset.name} | names_of(dataset))
    if twice := sorted(name for name, count in counts.items() if count > 1):
        error = InvalidRequest(
            f"Two datasets have one name, or tables of one name: {', '.join(twice)}.",
            hint="A name is a folder: give each dataset and each table its own.",
        )
        both = [each for each in datasets if not {each.name, *names_of(each)}.isdisjoint(twice)]
        yield from (_whole(each, error) for each in both)


def _unsound(datasets: Sequence[Dataset]) -> Iterator[LeftOut]:
    for each in datasets:
        try:
            require_sound([each], among=datasets)
        except BackfillError as error:
            yield _whole(each, error)


def _in_a_circle(datasets: Sequence[Dataset]) -> Iterator[LeftOut]:
    of_table = {name: step.name for dataset in datasets for step in dataset.steps for name in step.table_names}
    steps = {step.name: step for dataset in datasets for step in dataset.steps}
    reads = {
        name: {of_table[each.table] for version in step.versions for each in version.reads}
        for name, step in steps.items()
    }
    try:
        TopologicalSorter(reads).prepare()
    except CycleError as error:
        circle = error.args[1]
        words = InvalidRequest(
            f"Tables are made of each other: {', '.join(circle)}.", hint="One of them has to be first."
        )
        yield from (_whole(each, words) for each in datasets if not names_of(each).isdisjoint(circle))


def _begun(datasets: Sequence[Dataset]) -> Iterator[LeftOut]:
    for each in datasets:
        read = [other for other in datasets if other is not each and reads_of(each) & names_of(other)]
        if any(other.first_day != each.first_day for other in read):
            yield _whole(each, begins_elsewhere([*read, each]))


def begins_elsewhere(datasets: Iterable[Dataset]) -> InvalidRequest:
    begun = ", ".join(f"{dataset.name} on {dataset.first_day}" for dataset in datasets)
    return InvalidRequest(
        f"Datasets that read each other begin on different days: {begun}.",
        hint="Give them the same first_day: one run carries a range through all of them.",
    )


def reads_of(dataset: Dataset) -> set[str]:
    return {reads.table for step in dataset.steps for version in step.versions for reads in version.reads}


def names_of(dataset: Dataset) -> set[str]:
    return {table.name for table in dataset.tables}
