"""Datasets that land nothing: they are computed from tables that others write, and from other datasets here."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.external_table import ExternalTable


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivedDataset(DeclaredTables):
    """A dataset that lands nothing: its tables are computed from tables of others, and from those of other datasets."""

    external: tuple[ExternalTable, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Its own and those of its tables, also where it is declared wrong."""
        return (*super().names, *(each.name for each in self.external))

    def dataset(self) -> Dataset:
        """The dataset with all its steps; raises :class:`InvalidRequest` for a wrong declaration."""
        steps = self._declared(tuple(each.step for each in self.external), self.unusual_beyond)
        return Dataset(self.name, self.description, self.owners, steps, self.first_day)
