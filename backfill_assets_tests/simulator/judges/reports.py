"""Every report equals its fact: a published day of the chain is what its version makes of what main shows with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice, product

from backfill_assets.days import TableDay
from backfill_assets_tests.simulator.chain import LANDED, Chain
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import Rows

_MOST_CHOICES = 2_000


@dataclass
class ReportJudge:
    """Asked about each publication once it is closed, with the map of then."""

    tables: Mapping[str, TableJudge]
    chain: Chain
    raw: dict[TableDay, list[str]] = field(default_factory=dict)
    """The rows of raw, in the order in which they came."""
    version_of: dict[TableDay, str] = field(default_factory=dict)
    """The version of the logic that each published day is of."""

    @property
    def landed(self) -> dict[date, list[str]]:
        """The rows of sales by day."""
        return {day: rows for (table, day), rows in self.raw.items() if table == LANDED.name}

    def closed(self, publication: str, versions: Mapping[TableDay, str | None], shown: Mapping[str, int]) -> None:
        """``versions`` are those of its days; None for a day that is published no more."""
        versions = {key: version for key, version in versions.items() if key.table in self.chain.step_of}
        for key, version in versions.items():
            self.version_of.pop(key, None)
            if version is not None:
                self.version_of[key] = version
        for key in (key for key in versions if self.chain.step_of[key.table].source is not None):
            known = self.raw.setdefault(key, [])
            known += (self._rows(key.table, key.day, shown) - Counter(known)).elements()
        for key in (key for key in versions if key in self.version_of and key not in self.raw):
            found = self._rows(key.table, key.day, shown)
            wanted = list(self._wanted(key, shown))
            assert found in wanted, f"{publication} brings {key}: {dict(found)}, its inputs make {wanted[:3]}"

    def _rows(self, table: str, day: date, shown: Mapping[str, int]) -> Rows:
        return self.tables[table].at(shown[table], day).rows if table in shown else Counter()

    def _wanted(self, key: TableDay, shown: Mapping[str, int]) -> Iterator[Rows]:
        """Of what is shown; of inputs as they were before they gained rows, which they may while a day is staged."""
        step, version = self.chain.step_of[key.table], self.version_of[key]
        read = self.chain.reads(step, version, key.day)
        choices = [list(self._may_have_been(*each, shown)) for each in read]
        for rows in islice(product(*choices), _MOST_CHOICES):
            inputs = dict(zip(read, rows, strict=True))
            yield Counter(self.chain.names_of(step, version, key.day, lambda each, had=inputs: had[each].elements()))  # type: ignore[misc]

    def _may_have_been(self, table: str, day: date, shown: Mapping[str, int]) -> Iterator[Rows]:
        """The rows of a day, and those of its former versions that it has only gained files since, or by others."""
        if table not in shown:
            yield Counter()
            return
        judge, known = self.tables[table], list[Rows]()
        newest = judge.at(shown[table], day)
        after = newest
        for version in range(shown[table], -1, -1):
            image = judge.at(version, day)
            if image.rows == after.rows or judge.touched_between(day, version, version + 1):
                newest = image  # the same rows in other files; what others wrote is shown with the next publication
            after = image
            if image.files <= newest.files and image.rows not in known:
                known.append(image.rows)
                yield image.rows

    def all_from_raw(self, shown: Mapping[str, int]) -> None:
        """Everything is built once more: each published day is what raw alone makes of it."""
        rows: dict[TableDay, Sequence[str]] = {key: tuple(names) for key, names in self.raw.items()}
        for step in self.chain.computed:
            for key in sorted(key for key in self.version_of if key.table == step.name):
                made = self.chain.names_of(step, self.version_of[key], key.day, lambda each: rows.get(each, ()))
                rows[key] = made
                found = self._rows(key.table, key.day, shown)
                assert found == Counter(made), f"in the end {key} has {dict(found)}, raw makes {made} of it"
