"""Pandera's own verdict: examples of what breaks a contract, and whether it agrees with the judge's query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_assets.judge import by_pandera
from backfill_assets.judge.by_pandera import pandera_report, second_opinion, with_reports
from backfill_assets.judge.engine import DayFiles, declared_types
from backfill_assets.judge.measure import measure_files
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import DayFacts, RuleOutcome, Table
from backfill_assets.quality import gates
from backfill_assets_tests.strategies.every_type import EveryType

pytestmark = pytest.mark.data
EVERYTHING = Table("everything", "fact", "A column of each type.", EveryType, ())
FIRST, *LATER = (date(2017, 3, day) for day in range(1, 6))
SOUND: Mapping[str, Any] = {"kind": "received", "rate": 1}


def put(storage: Storage, day: date, rows: Sequence[Mapping[str, Any]]) -> DayFiles:
    path = f"everything/day={day}/a.parquet"
    file = Path(storage.root, path)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist([dict(row) for row in rows], pa.schema(list(declared_types(EveryType).items()))), file
    )
    return {day: [AddedFile(path, str(day), file.stat().st_size, 0, "{}")]}


def violating(storage: Storage, files: DayFiles) -> dict[date, int]:
    found = measure_files(storage, EVERYTHING, files, lambda: pytest.fail("Spark was asked"), only=[gates.VIOLATING])
    return {day: int(str(metrics[gates.VIOLATING])) for day, metrics in found.items()}


def test_each_check_that_is_broken_has_a_few_examples(storage: Storage) -> None:
    """Of many rows. Those that break nothing are not shown to pandera, which holds in memory what it is shown."""
    wrong = [{**SOUND, "tiny": -5 - number % 90} for number in range(3_000)]
    others = [{**SOUND, "kind": None, "text": "UNKNOWN"}, *[SOUND] * 3_000]
    tiny, text, kind = sorted(pandera_report(storage, EVERYTHING, put(storage, FIRST, [*wrong, *others])))[::-1]
    assert (kind, text) == ("kind: not_nullable", "text: notin(['UNKNOWN', '-']), for example UNKNOWN")
    said, _, examples = tiny.partition(", for example ")
    assert said == "tiny: greater_than(-5)"
    assert 1 <= len(examples.split(", ")) <= 5


def test_pandera_and_the_query_agree_on_rows_of_every_type(storage: Storage) -> None:
    sound, broken = put(storage, FIRST, [SOUND, {**SOUND, "text": "a"}]), put(storage, LATER[0], [{**SOUND, "rate": 0}])
    counted = violating(storage, {**sound, **broken})
    assert counted == {FIRST: 0, LATER[0]: 1}
    for day, files in ((FIRST, sound), (LATER[0], broken)):
        assert second_opinion(storage, EVERYTHING, files, counted[day]).passed


class Real(Contract):
    """A number where there has to be one, and where there need not."""

    real: float = Field(ge=0)
    perhaps: float = Field(nullable=True, ge=0)
    day: date = Field()


def test_what_is_not_a_number_is_missing_for_both(storage: Storage) -> None:
    """To pandera NaN is a null of numbers in base 2, and so it is here."""
    table, path = Table("real", "fact", "", Real, ()), f"real/day={FIRST}/a.parquet"
    Path(storage.root, path).parent.mkdir(parents=True)
    columns = {"real": [0.5, math.nan, -1.0, 0.0], "perhaps": [math.nan, 1.0, None, math.nan]}
    pq.write_table(
        pa.table({name: pa.array(values, pa.float64()) for name, values in columns.items()}), Path(storage.root, path)
    )
    files = {FIRST: [AddedFile(path, str(FIRST), Path(storage.root, path).stat().st_size, 0, "{}")]}
    found = measure_files(storage, table, files, lambda: pytest.fail("Spark was asked"), only=[gates.VIOLATING])
    assert found[FIRST][gates.VIOLATING] == 2
    assert second_opinion(storage, table, files, 2).passed


@pytest.mark.parametrize(
    ("rows", "counted", "seen"), [(SOUND, 1, "every row fulfils"), ({**SOUND, "rate": 0}, 0, "rate: ")]
)
def test_a_verdict_that_differs_is_a_failure(
    storage: Storage, rows: Mapping[str, Any], counted: int, seen: str
) -> None:
    """Whichever of both finds more."""
    found = second_opinion(storage, EVERYTHING, put(storage, FIRST, [rows]), counted)
    assert not found.passed
    assert seen in found.observed and f"{counted} rows break" in found.expected


def test_of_many_broken_days_the_first_three_are_shown(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And only the rule that judges the contract says more than it did; sound days are not read again."""
    table = EVERYTHING
    sound = {FIRST: gates.judge(table, DayFacts({gates.VIOLATING: 0, "rows": 1}))}
    broken = {day: gates.judge(table, DayFacts({gates.VIOLATING: 1, "rows": 1})) for day in LATER}
    asked: list[DayFiles] = []

    def report(_: Storage, __: Table, files: DayFiles) -> tuple[str, ...]:
        asked.append(files)
        return ("rate: greater_than(0)",)

    monkeypatch.setattr(by_pandera, "pandera_report", report)
    assert with_reports(storage, table, sound, lambda: pytest.fail("read")) == sound
    files: DayFiles = dict.fromkeys((FIRST, *LATER), ())
    found = with_reports(storage, table, {**sound, **broken}, lambda: files)
    assert [list(each) for each in asked] == [[day] for day in LATER[:3]]
    assert _details(found) == {FIRST: (), **dict.fromkeys(LATER[:3], ("rate: greater_than(0)",)), LATER[3]: ()}


def _details(found: Mapping[date, Sequence[RuleOutcome]]) -> dict[date, tuple[str, ...]]:
    return {day: tuple(line for rule in rules for line in rule.details) for day, rules in found.items()}
