"""The moments worth going to, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from backfill_assets.report.answer import Answer, Grid, Id, Line, Special, plain
from backfill_assets.timeline.moments_listed import MomentWorthGoingTo, what_changed


@dataclass(frozen=True)
class Changed(Special):
    """What a publication changed, by table; or the gate that failed after it."""

    moment: MomentWorthGoingTo

    def plain(self) -> object:
        gate = self.moment.failed
        if gate is not None:
            return {"table": gate.table, "first_bad_day": str(gate.first_bad_day), "days": gate.days, "why": gate.why}
        return {table: self._table(table, days) for table, days in self.moment.changed.items()}

    def _table(self, table: str, days: int) -> dict[str, object]:
        columns, switch = self.moment.columns.get(table), self.moment.switched.get(table)
        return {
            "days": days,
            "versions": list(self.moment.versions[table]),
            **({"version_before": switch[0]} if switch else {}),
            **({"columns": plain(asdict(columns))} if columns else {}),
        }

    def shown(self, *, short: bool) -> str:
        return what_changed(self.moment)


def moments_answer(found: Iterable[MomentWorthGoingTo], tables: Iterable[str]) -> Answer:
    columns = ("publication", "at", "by", "kind", "changed")
    rows = [(Id(each.publication), each.at, each.by, ", ".join(each.kinds), Changed(each)) for each in found]
    table = Grid("moments", columns, rows, drop=("kind", "by"))
    if not rows:
        return Answer(parts=(table, Line("Nothing of these tables was published yet.")))
    words = "Beside a failed gate is the publication that was the newest then." if _has_gate(rows) else ""
    asked, newest = " ".join(tables), rows[0][0].text
    return Answer(
        parts=(table, *([Line(words)] if words else [])),
        next=(
            f"backfill timeline rewind {asked} --to {newest}",
            f"backfill timeline rewind {asked} --to {newest}^     the state just before it",
        ),
    )


def _has_gate(rows: Iterable[tuple[object, ...]]) -> bool:
    return any("failed gate" in str(row[3]) for row in rows)
