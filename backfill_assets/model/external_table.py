"""Tables that others write, read in place: nothing of them is copied, and a version reads one by its name.

What a day of such a table is made of is known from its own log, see :mod:`backfill_assets.external`. A look at it is a
publication of day records alone: from then on it is pinned, compared and named in plans like any other table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import date
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, Field, columns_with, declared_types, once
from backfill_assets.model.declaration import Step, Table, Version, a_type
from backfill_assets.model.event_day import zone_meant
from backfill_assets.model.placement import IN_UTC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OBSERVED = "observed"
"""The version of each day of a table of others: as it was when it was looked at."""
Written = Literal["delta", "parquet"]


class _OnDays(Contract):
    day: date = Field(description="The day that the row belongs to.")


@dataclass(frozen=True)
class ExternalTable:
    """A table that others write, which versions read by its ``name``, for the days that its column ``day`` says.

    ``contract`` has the columns that are read, and what their values must fulfil: days that are made of rows that break
    it are held back. ``Field(landed="ordered at")`` is the name of a column there, ``Field(personal="email")`` has a
    token in place of a personal value. All other columns are left alone. Transforms also get ``day``, a date.
    """

    name: str
    contract: type[Contract]
    _: KW_ONLY
    location: str
    """Its folder, or ``s3://bucket/prefix``."""
    day: str
    """The column there that says the day of a row: a date, a moment, or text that begins with ``2016-02-15``."""
    event_zone: str = IN_UTC
    """A moment is on the day that the clocks of this time zone show: ``Europe/Berlin``."""
    written: Written = "delta"
    """As what: a Delta table, or a folder of Parquet files."""
    asset_key: tuple[str, ...] = ()
    """What Dagster's asset of it is called where others have one already; its name otherwise."""

    def __call__(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        """What would compute its rows, if anybody here did."""
        self.refuse("its days are looked at, and never built", f"backfill run {self.name} --days A..B looks at them.")

    def decides_rows(self) -> Mapping[str, object]:
        """What rows depend on, besides what others write."""
        types, there = declared_types(self.contract), self.columns
        columns = {name: (types[name], there[name], name in self.personal) for name in there}
        return {"day": self.day, "event_zone": self.event_zone, "columns": columns}

    @property
    def read_as(self) -> str:
        """Another one for each other declaration of what is read."""
        return hashlib.sha256(json.dumps(self.decides_rows(), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def columns(self) -> Mapping[str, str]:
        """What each column that is read is called there, by its own name; without ``day``, unless it is one of them."""
        return {name: each.personal or each.landed or name for name, each in self.contract.fields().items()}

    @property
    def personal(self) -> tuple[str, ...]:
        """The columns that have tokens in the place of personal values."""
        return tuple(name for name, each in self.contract.fields().items() if each.personal)

    @property
    def step(self) -> Step:
        """What stands for it among the steps of a dataset; raises :class:`InvalidRequest` for a wrong declaration."""
        self._require_sound()
        table = Table(
            self.name,
            layer="external",
            description=" ".join((self.contract.__doc__ or "").split()),
            contract=on_days(self.contract),
            key=columns_with(self.contract, "key"),
        )
        return Step((table,), (Version(OBSERVED, "As others have written it.", (), self),), OBSERVED, external=self)

    def _require_sound(self) -> None:
        types = declared_types(self.contract)
        if "day" in types and types["day"] != "date":
            self._refuse(f"its column 'day' is {a_type(types['day'])}.", "It is the day of a row, a date.")
        if wrong := sorted(name for name in self.personal if types[name] != "string"):
            self._refuse(f"{wrong[0]!r} is {a_type(types[wrong[0]])}.", "A token is text: declare it as str.")
        if unknown := sorted(name for name, each in self.contract.fields().items() if each.joined or each.rescued):
            self._refuse(f"{unknown[0]!r} is joined or rescued.", "What others write is read as it is.")
        if self.written not in get_args(Written):
            self._refuse(f"it is written as {self.written!r}.", f"One of {', '.join(get_args(Written))}.")
        if hint := zone_meant(self.event_zone):
            self._refuse(f"there is no time zone {self.event_zone!r}.", hint)

    def refuse(self, what: str, instead: str) -> NoReturn:
        """Raise :class:`InvalidRequest` for what is done to tables of one's own: that it is not done to this one, and
        what to do instead.
        """
        raise InvalidRequest(f"{self.name} is a table of others: {what}.", hint=instead)

    def _refuse(self, what: str, hint: str) -> None:
        raise InvalidRequest(f"The table of others {self.name} is declared wrong: {what}", hint=hint)


@once
def on_days(contract: type[Contract]) -> type[Contract]:
    """``contract`` with the column ``day``, the last one."""
    if "day" in contract.fields():
        return contract
    made: type[Contract] = type(contract.__name__, (_OnDays, contract), {"__doc__": contract.__doc__})
    return made
