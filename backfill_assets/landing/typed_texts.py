"""Types a few landed texts by the declared query, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from backfill_assets.judge.engine import database
from backfill_assets.lakehouse.arrow_dataset import python_rows
from backfill_assets.model.declaration import Source
from backfill_assets.model.landed_values import parsed_sql

Row = Mapping[str, Any]
_TEXTS, _TEXT = "texts", "landed_text"


@dataclass(frozen=True)
class LandedValues:
    source: Source
    rows: Sequence[Row]
    columns: tuple[str, ...]

    def value(self, row: Row, name: str) -> object:
        """Returns None for no value, and text for a moment outside Python's years."""
        text, kind = row[name], self.source.type_of(name)
        return text if kind == "string" or not isinstance(text, str) else self._typed[kind][text]

    @cached_property
    def _typed(self) -> Mapping[str, Mapping[str, object]]:
        kinds = dict.fromkeys(map(self.source.type_of, self.columns))
        texts = {text for name in self.columns for row in self.rows if isinstance(text := row[name], str)}
        return _values_of(texts, [kind for kind in kinds if kind != "string"])


def overtaking(source: Source, raw: Sequence[Row]) -> Callable[[Row, Row], bool]:
    version = source.version_field
    landed = LandedValues(source, raw, (version,))

    def overtakes(row: Row, winner: Row) -> bool:
        if row["content_hash"] == winner["content_hash"]:  # the hash covers the version
            return False
        now, was = landed.value(row, version), winner[version]
        return type(now) is type(was) and bool((now, row["content_hash"]) > (was, winner["content_hash"]))

    return overtakes


def _values_of(texts: Collection[str], kinds: Sequence[str]) -> dict[str, dict[str, object]]:
    values = ", ".join(f'{parsed_sql(_TEXT, kind)} AS "{kind}"' for kind in kinds)
    with database(threads=1) as connection:
        connection.register(_TEXTS, pa.table({_TEXT: pa.array(sorted(texts), pa.string())}))
        asked = f"SELECT {_TEXT}, {values} FROM {_TEXTS}"  # noqa: S608 - declared types
        found = python_rows(connection.execute(asked).to_arrow_table())
    return {kind: {row[_TEXT]: row[kind] for row in found} for kind in kinds}
