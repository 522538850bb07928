"""Which rows are a person's: no other one's, wherever the value is named."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.quarantine import Rejects
from backfill_assets.landing.zone import LandingZone
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.state.view import View
from backfill_assets.upkeep.erasure import Erasing, FoundPerson
from backfill_assets.upkeep.find_person import DataSubject, documents_with, whose
from backfill_assets_tests.stories.personal_key import SOURCE, VISITS

FILE = "visits/2010-05-19/a.jsonl.gz"
MINE, OTHERS = "a" * 64, "b" * 64
ANA = DataSubject("@", "Ana-7", MINE)
ORIGIN = Rejects("quarantine_visits", VISITS.steps[1], "raw_visits", SOURCE)


def raw(*rows: dict[str, Any]) -> pa.Table:
    names = {"patient_token": pa.string(), "rescued": pa.string(), "unparsed_line": pa.string()}
    schema = pa.schema([*names.items(), ("source_file", pa.string()), ("source_line", pa.int64())])
    return pa.Table.from_pylist([{"source_file": FILE, **row} for row in rows], schema)


class Raw:
    """A view of one table in memory."""

    def __init__(self, rows: pa.Table) -> None:
        self.held = rows

    def rows(self, table: str, days: None, chosen: pc.Expression, columns: list[str]) -> pa.Table:
        return self.held.filter(chosen).select(columns)


def lines_of(rows: pa.Table, landing: Path, person: DataSubject = ANA) -> list[int]:
    found = whose(cast("View", Raw(rows)), LandingZone(landing), ORIGIN, person)
    return cast("list[int]", rows.filter(found.among(rows))["source_line"].to_pylist())


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    lines = ["sound Ana-7", "another's", "broken Ana-7", "broken Ana-70", "another's, names Ana-7", "unknown Ana-7"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def test_only_rows_of_the_person_or_of_nobody_are_meant(landing: Path) -> None:
    """One who is named in a field of another's row that nobody declared is not that other one."""
    rows = raw(
        {"source_line": 1, "patient_token": MINE},
        {"source_line": 2, "patient_token": OTHERS},
        {"source_line": 3, "unparsed_line": "withheld: a token of the line"},
        {"source_line": 4, "unparsed_line": "withheld: a token of another line"},
        {"source_line": 5, "patient_token": OTHERS, "rescued": f'{{"referred_by":"{MINE}"}}'},
        {"source_line": 6, "rescued": '{"patient":"withheld"}'},
    )
    assert lines_of(rows, landing) == [1, 3, 6]


def test_an_event_that_names_the_person_elsewhere_is_found_by_the_token(landing: Path) -> None:
    """It has no landed line."""
    topic = {"source_file": "kafka:visits/0"}
    rows = raw(
        {**topic, "source_line": 7, "rescued": f'{{"Patient_ID":"{MINE}"}}'},
        {**topic, "source_line": 8, "rescued": f'{{"Patient_ID":"{OTHERS}"}}'},
        {**topic, "source_line": 9},
    )
    assert lines_of(rows, landing) == [7]


def test_what_is_kept_beside_the_lakehouse_is_searched(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "runs.db").write_bytes(b"\x00Ana-7\x00")
    (tmp_path / "dagster.yaml").write_text("storage:")
    assert list(documents_with(tmp_path, ANA.texts)) == [str(tmp_path / "storage" / "runs.db")]
    assert list(documents_with(tmp_path / "absent", ANA.texts)) == [] == list(documents_with(tmp_path, [""]))


def test_a_reason_that_names_the_person_is_refused_before_anything_is_done() -> None:
    """It would stay in the log, in the place of what it was about."""
    erasing = Erasing(cast("Any", None), RunInfo("a-run"), lambda text: None)
    with pytest.raises(InvalidRequest, match="reason has the value") as refused:
        erasing.erase(FoundPerson(ANA, (), (), {}), "asked by Ana-7")
    assert "Ana-7" not in str(refused.value)
