from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol


@dataclass(frozen=True)
class FieldProfile:
    name: str
    present: int
    different: int
    kinds: Mapping[str, int] = field(default_factory=dict)
    """In JSON: ``text``, ``number``, ``boolean``, ``object``, ``list``."""
    fits: Mapping[str, int] = field(default_factory=dict)
    """Readable values by Spark type."""
    forms: Mapping[str, int] = field(default_factory=dict)
    before: int = 0
    behind: int = 0
    few: tuple[str, ...] = ()
    typed: str = ""
    """A table's Spark type; then there are no forms."""

    def all_fit(self, kind: str) -> bool:
        return 0 < self.present == self.fits.get(kind, 0)

    def all_are(self, form: str) -> bool:
        return 0 < self.present == self.forms.get(form, 0)


@dataclass(frozen=True)
class SampleProfile:
    rows: int
    fields: tuple[FieldProfile, ...]
    unread: int = 0
    whole: bool = True
    alike: tuple[str, ...] = ()
    """Equal but for case: no table has both."""


@dataclass(frozen=True)
class DaysSeen:
    first: date
    last: date
    most_rows: int
    ahead: int = 0
    """Rows whose day is more than a day after arrival."""
    late: int = 0
    """Rows more than a week after their day."""


class SampledRows(Protocol):
    """Distinct rows; columns are landed names."""

    @property
    def count(self) -> int:
        pass

    @property
    def repeated(self) -> int:
        pass

    def different(self, columns: Collection[str], day: str = "") -> int:
        """Distinct values together, for each ``day``."""
