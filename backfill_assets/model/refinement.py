"""How the raw rows of a source become typed rows: a declaration, and the query that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backfill_assets.model import bronze_query
from backfill_assets.model.dataset import require_sound_refinement
from backfill_assets.model.declaration import Source
from backfill_assets.model.standing_query import standing

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from backfill_assets.model.contract import Contract


@dataclass(frozen=True)
class Refinement:
    """How the raw rows of a source become typed rows with one winner per ``key`` and day: the transform of bronze.

    It is no function of rows. Who has rows asks its query: of files ``rebuild/refining.py``, of what Spark holds
    ``spark/computed.py``.
    """

    source: Source
    contract: type[Contract]
    key: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Text columns joined of others, such as a key of two fields: see ``joined_key`` of ``model/landed_values.py``."""
    takes_days: int | None = None
    """Rows that landed more days after their day are rejected; None takes all of them."""

    def __post_init__(self) -> None:
        require_sound_refinement(self.source, self.key, self.derived)

    def decides_rows(self) -> Mapping[str, object]:
        """What the rows depend on. On which days rows of raw are possible is part of the version of raw."""
        source = self.source
        return {
            "source": (source.name, source.event_day_field, source.key_fields, source.version_field, source.fields),
            "types": source.types,
            "personal": source.personal_fields,
            "rescued": source.rescued_fields,
            **({"renamed": source.renamed_fields} if source.renamed_fields else {}),
            "contract": self.contract.decides_rows(),
            "key": self.key,
            "derived": self.derived,
            "takes_days": self.takes_days,
        }

    @property
    def raw(self) -> str:
        """The name of the table that it reads."""
        return f"raw_{self.source.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The landed fields, and what is derived from them."""
        return (*self.source.columns, *self.derived)

    # ---------------------------------------------------------------- the query

    def judged(self, raw: ir.Table, part: tuple[int, int] = (0, 1), *, has_deletions: bool = False) -> ir.Table:
        """All that :meth:`tables` need of rows of ``raw``, or of a ``part`` of their keys: one row for each.

        Where the source took rows back, raw ``has_deletions``: then only what stands is judged.
        """
        return bronze_query.judged(standing(raw) if has_deletions else raw, self, part)

    def tables(self, judged: ir.Table) -> Mapping[str, ir.Table]:
        """Both tables of the source from what was :meth:`judged`: ``bronze_<source>`` and ``quarantine_<source>``."""
        name = self.source.name
        return {
            f"bronze_{name}": bronze_query.accepted(judged, self),
            f"quarantine_{name}": bronze_query.rejected(judged, self),
        }
