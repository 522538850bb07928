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
Written = Literal["delta", "parquet"]


class _OnDays(Contract):
    day: date = Field(description="The day that the row belongs to.")


@dataclass(frozen=True)
class ExternalTable:
    """A table that others write, read by ``name``, with ``day`` added.

    ``contract`` has the columns read; days of rows that break it are held back. ``Field(landed="ordered at")`` is a
    name there, ``Field(personal="email")`` keeps a token.
    """

    name: str
    contract: type[Contract]
    _: KW_ONLY
    location: str
    day: str
    """A date, a moment, or text that begins with ``2016-02-15``."""
    event_zone: str = IN_UTC
    written: Written = "delta"
    asset_key: tuple[str, ...] = ()
    """An existing Dagster asset; by default the name."""

    def __call__(self, inputs: Mapping[str, DataFrame]) -> Mapping[str, DataFrame]:
        self.refuse("its days are looked at, and never built", f"backfill run {self.name} --days A..B looks at them.")

    def decides_rows(self) -> Mapping[str, object]:
        types, there = declared_types(self.contract), self.columns
        columns = {name: (types[name], there[name], name in self.personal) for name in there}
        return {"day": self.day, "event_zone": self.event_zone, "columns": columns}

    @property
    def read_as(self) -> str:
        return hashlib.sha256(json.dumps(self.decides_rows(), sort_keys=True).encode()).hexdigest()[:8]

    @property
    def columns(self) -> Mapping[str, str]:
        return {name: each.personal or each.landed or name for name, each in self.contract.fields().items()}

    @property
    def personal(self) -> tuple[str, ...]:
        return tuple(name for name, each in self.contract.fields().items() if each.personal)

    @property
    def step(self) -> Step:
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
        raise InvalidRequest(f"{self.name} is a table of others: {what}.", hint=instead)

    def _refuse(self, what: str, hint: str) -> None:
        raise InvalidRequest(f"The table of others {self.name} is declared wrong: {what}", hint=hint)


@once
def on_days(contract: type[Contract]) -> type[Contract]:
    if "day" in contract.fields():
        return contract
    made: type[Contract] = type(contract.__name__, (_OnDays, contract), {"__doc__": contract.__doc__})
    return made
