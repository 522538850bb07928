"""What is declared wrong, and is left out so that all else goes on."""

from __future__ import annotations

from collections.abc import Sequence

from backfill_assets.model.left_out import LeftOut
from backfill_assets.report.answer import Grid


def left_out_parts(found: Sequence[LeftOut]) -> tuple[Grid, ...]:
    """A row for each dataset or table, with why and what to do; nothing where all is declared soundly."""
    if not found:
        return ()
    rows = [(each.what, " ".join(each.error.message.split()), each.error.hint or "") for each in found]
    return (Grid("left_out", ("left out", "why", "what to do"), rows, title="Declared wrong", one_by_one=True),)
