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
    """How raw rows become typed rows, one per ``key`` and day, in files (``rebuild/refining.py``) or Spark
    (``spark/computed.py``).
    """

    source: Source
    contract: type[Contract]
    key: tuple[str, ...]
    derived: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    takes_days: int | None = None
    """Rows that land later are rejected."""

    def __post_init__(self) -> None:
        require_sound_refinement(self.source, self.key, self.derived)

    def decides_rows(self) -> Mapping[str, object]:
        """Raw's code version has the possible days."""
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
        return f"raw_{self.source.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.source.columns, *self.derived)

    # ---------------------------------------------------------------- the query

    def judged(self, raw: ir.Table, part: tuple[int, int] = (0, 1), *, has_deletions: bool = False) -> ir.Table:
        """For :meth:`tables`; ``has_deletions`` leaves out rows taken back."""
        return bronze_query.judged(standing(raw) if has_deletions else raw, self, part)

    def tables(self, judged: ir.Table) -> Mapping[str, ir.Table]:
        name = self.source.name
        return {
            f"bronze_{name}": bronze_query.accepted(judged, self),
            f"quarantine_{name}": bronze_query.rejected(judged, self),
        }
