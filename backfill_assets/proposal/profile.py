"""What is seen of a sample, as data: of each field its values by kind and form, and of all rows how they differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol


@dataclass(frozen=True)
class FieldProfile:
    """What the values of a landed field look like, as text; each number but the last ones is one of values."""

    name: str
    """As it is landed."""
    present: int
    """Those that are there."""
    different: int
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How JSON wrote them: ``text``, ``number``, ``boolean``, ``object``, ``list``. Empty where nothing says it."""
    fits: Mapping[str, int] = field(default_factory=dict)
    """By Spark type, as many as landed text of that type is read from."""
    forms: Mapping[str, int] = field(default_factory=dict)
    """By form, one of those in ``forms.py``."""
    before: int = 0
    """The most digits before the point, of plain numbers."""
    behind: int = 0
    few: tuple[str, ...] = ()
    """All of them, if they are few."""
    typed: str = ""
    """The Spark type, where the table has one; its values have no form then."""

    def all_fit(self, kind: str) -> bool:
        return 0 < self.present == self.fits.get(kind, 0)

    def all_are(self, form: str) -> bool:
        return 0 < self.present == self.forms.get(form, 0)


@dataclass(frozen=True)
class SampleProfile:
    """All fields of a sample of ``rows``, in the order in which they are first seen."""

    rows: int
    fields: tuple[FieldProfile, ...]
    unread: int = 0
    """Records that cannot be read."""
    whole: bool = True
    """False if only the first rows of the files were read."""
    alike: tuple[str, ...] = ()
    """Fields that are called as one before them, but for case: no table has both."""


@dataclass(frozen=True)
class DaysSeen:
    """The days that a date or a moment names, as far as they are there."""

    first: date
    last: date
    most_rows: int
    """Of one day."""
    ahead: int = 0
    """Rows that name a day of more than one day after they arrived; 0 where their arrival is not known."""
    late: int = 0
    """Rows that arrived more than a week after the day that they name."""


class SampledRows(Protocol):
    """The distinct rows of a sample, which can be asked how they differ. Columns have the names of landed fields."""

    @property
    def count(self) -> int:
        """How many there are; of rows that are equal in all fields one."""

    @property
    def repeated(self) -> int:
        """How many rows were equal to one before."""

    def different(self, columns: Collection[str], day: str = "") -> int:
        """How many values these columns have together, on each day that the column ``day`` names, as typed."""
