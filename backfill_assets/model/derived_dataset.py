from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.external_table import ExternalTable


@dataclass(frozen=True, kw_only=True, eq=False)
class DerivedDataset(DeclaredTables):
    external: tuple[ExternalTable, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*super().names, *(each.name for each in self.external))

    def dataset(self) -> Dataset:
        steps = self._declared(tuple(each.step for each in self.external), self.unusual_beyond)
        return Dataset(self.name, self.description, self.owners, steps, self.first_day)
