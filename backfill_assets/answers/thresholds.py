"""How often each threshold of a dataset would have been broken on published days, from the log.

One that breaks on sound days is too narrow; one that never breaks may be too wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
from backfill_assets.report.answer import Answer, Days, Grid, Line, Tone
from backfill_assets.text import format_count

_COLUMNS = ("table", "threshold", "kind", "judged", "broken", "days")
History = tuple[str, str, str, Mapping[date, bool]]
"""Table, threshold, ``declared`` or ``learned``, and the verdict on each judged day."""


def thresholds_answer(storage: Storage, declared: Dataset, tables: Iterable[str]) -> Answer:
    """``tables``: all. Raises :class:`InvalidRequest` if nothing is published."""
    log = PublicationLog(storage)
    days = defaultdict[str, dict[date, Metrics]](dict)
    for key, state in log.day_states(log.head(), tables).items():
        if state.content is not None:
            days[key.table][key.day] = {**state.content.metrics, "rows": state.content.rows}
    found = [each for each in histories(declared, days) if each[-1]]
    if not found:
        raise InvalidRequest(f"Nothing of {declared.name} is published.", hint="Build some days first: backfill run.")
    rows, all_broken = [], 0
    for *name, verdicts in found:
        broken = [day for day, passed in sorted(verdicts.items()) if not passed]
        all_broken += len(broken)
        rows.append((*name, len(verdicts), len(broken), Days.of(broken)))
    judged = sum(len(verdicts) for *_, verdicts in found)
    words = f"{format_count(all_broken, 'verdict')} of {judged:,} would be a failure or a warning."
    grid = Grid("thresholds", _COLUMNS, rows, drop=("kind",), groups=("table",))
    return Answer(declared.name, (Line(words, Tone.WARN if all_broken else Tone.GOOD), grid))


def histories(declared: Dataset, days: Mapping[str, DaysMetrics]) -> Iterator[History]:
    """``days``: metrics of all tables, since rules may compare with other datasets."""
    for step in declared.steps:
        for table in step.tables:
            for rule in (each for each in table.rules if not each.judged_afresh):
                yield table.name, rule.name, "declared", dict(_declared(table, step, rule, days))
            learned = defaultdict[str, dict[date, bool]](dict)
            of_table = days.get(table.name, {}) if table.unusual_beyond is not None else {}
            for day in of_table:
                for each in as_usual.findings(table, step, of_table, day):
                    if each.band is not None:
                        learned[each.figure.name][day] = each.passed
            yield from ((table.name, name, "learned", verdicts) for name, verdicts in learned.items())


def _declared(table: Table, step: Step, rule: DayRule, days: Mapping[str, DaysMetrics]) -> Iterator[tuple[date, bool]]:
    for day, own in days.get(table.name, {}).items():
        above = {name: _of_period(days.get(name, {}), step.cadence.period(day)) for name in rule.tables}
        try:
            yield day, rule.judge(DayFacts(own, above)).passed
        except LookupError:
            continue  # Published before this was measured.


def _of_period(days: DaysMetrics, period: DayRange) -> Metrics:
    return add_up([days[day] for day in period if day in days])
