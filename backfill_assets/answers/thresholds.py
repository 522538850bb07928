"""How often each threshold of a dataset would have been broken on the days that are published, from the log alone.

A threshold that breaks on sound days is too narrow; one that never breaks may be too wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import DayFacts, DayRule, Metrics, Step, Table
from backfill_assets.publish.log import PublicationLog
from backfill_assets.quality import as_usual
from backfill_assets.quality.as_usual import DaysMetrics
from backfill_assets.quality.measures import add_up
from backfill_assets.report.answer import Answer, Days, Grid, Line, Quantity, Tone
from backfill_assets.text import format_count

_COLUMNS = ("table", "threshold", "kind", "judged", "broken", "share", "days")


@dataclass(frozen=True)
class ThresholdHistory:
    """The days that a threshold was asked about, and those that break it."""

    table: str
    threshold: str
    is_learned: bool
    verdicts: Mapping[date, bool]

    @property
    def broken(self) -> list[date]:
        return [day for day, passed in sorted(self.verdicts.items()) if not passed]


def thresholds_answer(storage: Storage, declared: Dataset, tables: Iterable[str]) -> Answer:
    """The thresholds of the tables of ``declared``: those that its rules declare, and those that are learned.

    ``tables`` are those of all datasets. Raises :class:`InvalidRequest` if nothing of it is published.
    """
    log = PublicationLog(storage)
    days: dict[str, dict[date, Metrics]] = {}
    for key, state in log.day_states(log.head(), tables).items():
        if state.content is not None:
            days.setdefault(key.table, {})[key.day] = {**state.content.metrics, "rows": state.content.rows}
    found = [each for each in histories(declared, days) if each.verdicts]
    if not found:
        raise InvalidRequest(f"Nothing of {declared.name} is published.", hint="Build some days first: backfill run.")
    rows = [
        (
            each.table,
            each.threshold,
            "learned" if each.is_learned else "declared",
            len(each.verdicts),
            len(each.broken),
            Quantity(len(each.broken) / len(each.verdicts), "share"),
            Days.of(each.broken),
        )
        for each in found
    ]
    checks, broken = sum(len(each.verdicts) for each in found), sum(len(each.broken) for each in found)
    line = Line(
        f"{format_count(broken, 'verdict')} of {checks:,} would be a failure or a warning.",
        Tone.WARN if broken else Tone.GOOD,
    )
    return Answer(declared.name, (line, Grid("thresholds", _COLUMNS, rows, drop=("kind", "share"), groups=("table",))))


def histories(declared: Dataset, days: Mapping[str, DaysMetrics]) -> Iterator[ThresholdHistory]:
    """``days`` has what was measured of all tables: a rule may compare with a table of another dataset."""
    for step in declared.steps:
        for table in step.tables:
            of_table = days.get(table.name, {})
            yield from (_declared(table, step, rule, days) for rule in table.rules if not rule.judged_afresh)
            yield from _learned(table, step, of_table)


def _declared(table: Table, step: Step, rule: DayRule, days: Mapping[str, DaysMetrics]) -> ThresholdHistory:
    verdicts = {}
    for day, own in days.get(table.name, {}).items():
        above = {name: _of_period(days.get(name, {}), step.cadence.period(day)) for name in rule.tables}
        try:
            verdicts[day] = rule.judge(DayFacts(own, above)).passed
        except LookupError:
            continue  # It was published before this was measured.
    return ThresholdHistory(table.name, rule.name, is_learned=False, verdicts=verdicts)


def _of_period(days: DaysMetrics, period: DayRange) -> Metrics:
    return add_up([days[day] for day in period if day in days])


def _learned(table: Table, step: Step, days: DaysMetrics) -> Iterator[ThresholdHistory]:
    verdicts: dict[str, dict[date, bool]] = {}
    for day in days if table.unusual_beyond is not None else ():
        for each in as_usual.findings(table, step, days, day):
            if each.band is not None:
                verdicts.setdefault(each.figure.name, {})[day] = each.passed
    yield from (ThresholdHistory(table.name, name, is_learned=True, verdicts=found) for name, found in verdicts.items())
