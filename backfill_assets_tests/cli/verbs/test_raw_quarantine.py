"""``backfill raw quarantine`` names where a rejected row is from; what a refresh says without Spark."""

from __future__ import annotations

from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.answers import raw as answers
from backfill_assets.answers.raw import refresh_answer
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.landing import quarantine
from backfill_assets.landing.zone import LandedFile
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.refresh import RefreshResult
from backfill_assets.stream.lease import HeldEvents
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.clock import NOON

LATE, DAY = date(2017, 2, 28), date(2017, 3, 1)
FILE = "sales/2017-03-01/a.jsonl.gz"


def rejected(file: str, line: int) -> dict[str, Any]:
    return {
        "source_file": file,
        "source_line": line,
        "day": DAY,
        "arrival_day": DAY,
        "content_hash": 7,
        "reasons": ["quantity: 'many' is not a bigint"],
        "quantity": "many",
    }


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found = [rejected(FILE, 3), rejected("kafka:orders/2", 0)]
    for module in (quarantine, answers):
        monkeypatch.setattr(module, "letters", lambda view, table, days=None: found)
    monkeypatch.setattr(quarantine, "resolved_positions", lambda *arguments: set())
    return found


def test_a_rejected_event_is_shown_with_its_offset(backfill: Backfill, rows: list[dict[str, Any]]) -> None:
    """For people in words; for programs beside the columns of raw. The example of a reason can be an event, too."""
    shown = ("raw", "quarantine", "quarantine_sales", DAY)
    output = backfill(*shown).output
    assert f"{FILE}:3" in output and "topic orders, partition 2, offset 0" in output
    line, event = backfill.json(*shown)["rows"]
    assert line["at"] == {"file": FILE, "line": 3}
    place = {"topic": "orders", "partition": 2, "offset": 0}
    assert event["at"] == {"file": "kafka:orders/2", "line": 0, **place}
    assert event["landed"] == {"quantity": "many"}
    rows.pop(0)
    (group,) = backfill.json("raw", "quarantine", "quarantine_sales")["reasons"]
    assert group["at"]["offset"] == 0 and group["at"]["topic"] == "orders"


def landed(name: str) -> LandedFile:
    return LandedFile("sales", DAY, f"sales/{DAY}/{name}.jsonl.gz", 1, "00")


def test_only_a_raw_table_is_read_from_a_source(backfill: Backfill) -> None:
    """The message says which tables are."""
    failed = backfill("raw", "refresh", "bronze_sales", DAY, exit_code=1)
    assert "bronze_sales is not read from a source." in failed.stderr and "raw_sales" in failed.stderr


def test_the_preview_counts_files_by_arrival_day_and_rows_by_event_day() -> None:
    """The days whose rows change are what has to be built again."""
    files = ArrivalFiles(DAY, unchanged=(landed("a"),), changed=(landed("b"),), gone=("sales/x",))
    answer = refresh_answer(RefreshResult([files], {DAY: (4, 4), LATE: (0, 1)}, dry_run=True))
    assert answer.table("rows").rows == [(LATE, 0, 1), (DAY, 4, 4)]
    (found,) = answer.as_json()["files"]
    assert found["changed"] == [landed("b").path] and found["gone"] == ["sales/x"] and found["new"] == []
    assert answer.as_json()["notes"] == [{"text": "Nothing was done: --dry-run.", "tone": "quiet"}]
    nothing = refresh_answer(RefreshResult([ArrivalFiles(DAY, unchanged=(landed("a"),))], dry_run=True))
    assert "Raw has just what the source has" in nothing.as_json()["notes"][0]["text"]


def test_rows_that_are_only_read_otherwise_are_told_plainly() -> None:
    """Who runs a refresh looks for corrections of the source."""
    answer = refresh_answer(RefreshResult((), {DAY: (3, 3)}, "back-1", read_otherwise=2))
    (note,) = answer.as_json()["notes"]
    assert note["text"].startswith("2 rows of files that have not changed: read otherwise") and note["tone"] == "warn"


def test_what_was_published_says_what_is_stale_and_how_it_is_undone() -> None:
    files = ArrivalFiles(DAY, changed=(landed("b"),))
    answer = refresh_answer(RefreshResult((files,), {DAY: (3, 4)}, "back-1"))
    assert answer.as_json()["publication"] == "back-1" and answer.as_json()["stale_now"] == [str(DAY)]
    assert answer.next == ("backfill status", "backfill rollback back-1")


def test_a_replay_builds_days_that_a_gate_held_back_once_there_is_another_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their rows are in no quarantine that could be judged; by the version that was tried they would fail again."""
    rejects = quarantine.rejects_named(CATALOG, "bronze_sales")
    held = HeldEvents(table="bronze_sales", day=DAY, rule="few_rejected", why="", events=9, since=NOON, version="v0")
    of_now = held.model_copy(update={"day": LATE, "version": CATALOG.step("bronze_sales").current})
    monkeypatch.setattr(answers, "held_of", lambda *_: [held, of_now])
    monkeypatch.setattr(answers, "anything_published", lambda _: True)
    monkeypatch.setattr(answers, "judge_again", lambda *_: [])
    built: list[Any] = []

    def rebuild(builder: object, freed: object, *_: object) -> list[Any]:
        built.append(freed)
        return []

    monkeypatch.setattr(answers, "rebuild", rebuild)
    builder: Any = SimpleNamespace(lake=SimpleNamespace(storage=None, with_current=lambda steps: steps))
    found = answers.replay(builder, rejects, None, RunInfo(""), lambda _: None)
    assert built == [{"bronze_sales": [DAY]}] and found.held == [held]
    assert f"9 events of {DAY} held back by few_rejected" in answers.replay_answer(found).as_json()["notes"][0]["text"]
