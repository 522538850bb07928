"""Which days of a publication come out equal when they are computed again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backfill_assets.rebuild.environment import differences
from backfill_assets.rebuild.reproduce import Reproduced, Reproduction, ReproductionVerdict
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Tone, Toned

_TONES = {
    ReproductionVerdict.EQUAL: Tone.GOOD,
    ReproductionVerdict.DIFFERENT: Tone.BAD,
    ReproductionVerdict.NOT_REPRODUCED: Tone.WARN,
}


# ------------------------------------------------------------------ recomputed


def reproduction_answer(publication: str, found: Reproduction) -> Answer:
    counts = {verdict: sum(day.verdict is verdict for day in found.days) for verdict in ReproductionVerdict}
    facts = (Fact("publication", Id(publication)), *(Fact(verdict.value, count) for verdict, count in counts.items()))
    return Answer(
        "Computed again",
        (*facts, _groups(found.days), *_different(found), *_lost(found), *_origins(publication, found)),
    )


def _groups(days: Sequence[Reproduced]) -> Grid:
    groups: dict[tuple[str, ReproductionVerdict], list[Reproduced]] = {}
    for day in days:
        groups.setdefault((day.table, day.verdict), []).append(day)
    rows = [
        (
            table,
            Toned(verdict.value, _TONES[verdict]),
            len(found),
            sum(day.published.rows for day in found if day.published),
            Days.of(day.day for day in found),
        )
        for (table, verdict), found in groups.items()
    ]
    return Grid("tables", ("table", "came out", "days", "rows", "which days"), rows, drop=("rows",))


def _different(found: Reproduction) -> Iterator[Grid]:
    rows = [
        (day.table, day.day, day.published.rows, day.staged.rows, day.published.checksum, day.staged.checksum)
        for day in found.days
        if day.verdict is ReproductionVerdict.DIFFERENT and day.published and day.staged
    ]
    if rows:
        columns = ("table", "day", "rows published", "rows now", "checksum published", "checksum now")
        yield Grid("different days", columns, rows, most=10)


def _lost(found: Reproduction) -> Iterator[Grid]:
    groups: dict[tuple[str, str], list[Reproduced]] = {}
    for day in found.days:
        if day.reason:
            groups.setdefault((day.table, day.reason), []).append(day)
    if groups:
        rows = [(table, Days.of(day.day for day in days), reason) for (table, reason), days in groups.items()]
        yield Grid("not reproduced", ("table", "which days", "why"), rows, title="Cannot be reproduced")


def _origins(publication: str, found: Reproduction) -> Iterator[Line]:
    if found.here is None:
        return
    if not found.made_with:
        yield Line(f"{publication} did not record with which Java, Spark and packages it was made.")
    for environment in found.made_with:
        if difference := differences(environment, found.here):
            yield Line(f"{publication} was {difference}.", Tone.WARN)
        if environment.dirty:
            yield Line(f"{publication} was made by code that no commit contains ({environment.git_commit}).")
