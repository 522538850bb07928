"""Finds datasets that read each other: they share one first day, one schedule and one run."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Dataset


def chains(datasets: Sequence[Dataset]) -> tuple[tuple[Dataset, ...], ...]:
    """Datasets by what they read of each other, directly or not; raises when those of a chain begin on other days."""
    found: list[tuple[Dataset, ...]] = []
    for dataset in datasets:
        touching = [chain for chain in found if any(_read_each_other(dataset, other) for other in chain)]
        joined = tuple(each for each in datasets if each is dataset or any(each in chain for chain in touching))
        found = [chain for chain in found if chain not in touching] + [joined]
    for chain in found:
        _demand_one_beginning(chain)
    return tuple(found)


def _read_each_other(one: Dataset, other: Dataset) -> bool:
    return bool(_reads(one) & _names(other) or _reads(other) & _names(one))


def _reads(dataset: Dataset) -> set[str]:
    return {reads.table for step in dataset.steps for version in step.versions for reads in version.reads}


def _names(dataset: Dataset) -> set[str]:
    return {table.name for table in dataset.tables}


def _demand_one_beginning(chain: Sequence[Dataset]) -> None:
    if len({dataset.first_day for dataset in chain}) > 1:
        begun = ", ".join(f"{dataset.name} on {dataset.first_day}" for dataset in chain)
        raise InvalidRequest(
            f"Datasets that read each other begin on different days: {begun}.",
            hint="Give them the same first_day: one run carries a range through all of them.",
        )
