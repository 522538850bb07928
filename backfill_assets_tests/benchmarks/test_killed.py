"""What is said of rewrites whose processes were killed, from what those processes told."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges import Verdict, cycles, linearizable
from backfill_assets_tests.simulator.judges.played import publication, read
from benchmarks.killed.__main__ import rows
from benchmarks.killed.contract import DAYS, ROWS, TABLES, held
from benchmarks.killed.play import Entrant, Played, is_whole, play

FACT, REPORT = ("fact", "2017-03-01"), ("daily_report", "2017-03-01")


def test_a_day_holds_its_tag_or_the_words_for_a_mixture() -> None:
    values = held([("fact", DAYS[0], "w1", ROWS), ("fact", DAYS[1], "w1", 5), ("fact", DAYS[1], "w2", ROWS)])
    assert values["fact"][str(DAYS[0])] == "w1"
    assert values["fact"][str(DAYS[1])] == "5 of 20 rows of w1 and 20 of 20 rows of w2"
    assert values["fact"][str(DAYS[2])] is None and not is_whole(values)


def test_a_lakehouse_of_one_rewrite_is_whole() -> None:
    assert is_whole(held((table, day, "w1", ROWS) for table in TABLES for day in DAYS))
    assert not is_whole(held((table, date(2017, 3, 1), "w1", ROWS) for table in TABLES))


def test_half_a_rewrite_is_counted_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One died between two tables, and two readers saw what it left."""
    monkeypatch.setattr(linearizable, "verdict", lambda history: Verdict(linearizable.JUDGE))
    died = publication("w1", 3, None, {FACT: ("setup", "w1"), REPORT: ("setup", "w1")}, "unknown")
    again = publication("w2", 20, 29, {FACT: ("w1", "w2"), REPORT: ("setup", "w2")})
    first = publication("setup", 1, 2, {FACT: (None, "setup"), REPORT: (None, "setup")})
    half = [read(name, 10, 11, {FACT: "w1", REPORT: "setup"}) for name in "rs"]
    after = read("r", 30, 31, {FACT: "w2", REPORT: "w2"})
    played = Played(Entrant("theirs", "none"), History((first, died, again, *half, after)), kills=1, apart=1)
    played.left = played.after_routine = {"fact": {"d": "w1"}, "daily_report": {"d": "setup"}}
    (row,) = rows(played)
    assert row.startswith("| theirs | 1 of 2, 0 s each | 3 | G-single, lost update: 1; G-single, read skew: 2 | ")
    assert row.endswith(" | linearizable | 1 | apart; apart | 0 |")


def test_processes_are_killed_between_tables_and_readers_tell_what_that_leaves(tmp_path: Path) -> None:
    """Nothing is kept together here, so it stays apart until somebody tries again."""
    entrant = Entrant("files", "backfill_assets_tests.benchmarks.one_file_a_table")
    played = play(entrant, tmp_path, kills=2, seed=1)
    assert played.kills >= 3 and 0 < played.apart <= played.kills
    assert not is_whole(played.left) and played.after_routine == played.left
    assert "G-single, read skew" in cycles.verdict(played.history).names
