"""The five dimensions of a day's quality as Dagster shows them: a table, a small chart, and numbers to plot. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from backfill_assets.defs.tables import metadata_table
from backfill_assets.quality.summary import DimensionQuality, chart, from_record, score, summarized
from backfill_assets.rebuild.outcome import BuiltDay

Metadata = dict[str, dg.MetadataValue]
_COLUMNS = {"dimension": "string", "passed": "int", "rules": "int", "what": "string"}


def quality_metadata(day: BuiltDay) -> Metadata:
    """``quality``, ``quality_chart``, ``quality_score`` and ``quality_<dimension>``, the numbers from 0 to 1.

    A reused day was not judged again: it shows what the gates said when it was published, as far as that was kept.
    """
    if day.rules:
        return _shown(summarized(day.rules), "every rule held")
    kept = from_record(day.metrics)
    if kept is None:
        unchanged = f"unchanged since its gates passed for publication {day.publication}"
        return {"quality": dg.MetadataValue.text(unchanged)}
    return _shown(kept, f"as judged for publication {day.publication}")


def _shown(qualities: Sequence[DimensionQuality], otherwise: str) -> Metadata:
    shares = {each.dimension: each.share for each in qualities}
    numbers = {"quality_score": score(qualities), **{f"quality_{name}": share for name, share in shares.items()}}
    return {
        "quality": metadata_table(_COLUMNS, (_record(each, otherwise) for each in qualities)),
        "quality_chart": dg.MetadataValue.md(chart(qualities)),
        **{name: dg.MetadataValue.float(share) for name, share in numbers.items() if share is not None},
    }


def _record(quality: DimensionQuality, otherwise: str) -> dict[str, str | int | bool]:
    what = quality.worst or (otherwise if quality.rules else "no rule, see docs/quality.md")
    return {"dimension": quality.dimension, "passed": quality.passed, "rules": quality.rules, "what": what}
