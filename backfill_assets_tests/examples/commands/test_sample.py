"""``backfill sample`` says what it landed, and refuses in one clear message."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from backfill_assets.cli import main
from backfill_assets.examples.commands.sample import parse_defects
from backfill_assets_tests.waiting import wait_until


def invoke(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(main, ["sample", *map(str, arguments)])


def test_synthetic_prints_its_seed_and_every_count_as_json(tmp_path: Path) -> None:
    """Scripts read the counts; a chosen seed must come back, a random one must be shown."""
    result = invoke(
        "synthetic", "--days", 2, "--rows-per-day", 30, "--defects", "late_row=3,broken_line=2",
        "--landing", tmp_path, "--json", "--seed", 9,
    )  # fmt: skip
    told = json.loads(result.output)
    assert told["seed"] == 9 and told["days"] == "2017-03-01..2017-03-02"
    assert {each["defect"]: each["rows"] for each in told["defects"] if each["rows"]} == {
        "late_row": 3,
        "broken_line": 2,
    }
    assert told["lines"]["quarantined"] == 2 and told["lines"]["received"] == 60
    random = invoke("synthetic", "--days", "2017-03-01", "--rows-per-day", 1, "--landing", tmp_path / "b", "--json")
    assert json.loads(random.output)["seed"] >= 0


def test_the_table_names_every_defect_and_the_seed(tmp_path: Path) -> None:
    """People read the table."""
    result = invoke("synthetic", "--days", 3, "--rows-per-day", 100, "--seed", 77, "--landing", tmp_path)
    assert result.exit_code == 0
    for expected in ("seed\t77", "overtaken_version", "superseded ", "files written\t20", "files already there\t0"):
        assert expected in result.output


def test_a_dataset_lands_by_itself_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable that the pipeline reads. A person who tries it does not need a year of groceries."""
    monkeypatch.setenv("BACKFILL_LANDING", str(tmp_path / "zone"))
    result = invoke("real", "--dataset", "sea_temperatures", "--days", "2017-03-21", "--json")
    assert json.loads(result.output)["lines"] == {"sea_temperatures": 49}
    assert [folder.name for folder in (tmp_path / "zone").iterdir()] == ["sea_temperatures"]


def test_live_events_are_counted_by_kind(tmp_path: Path) -> None:
    """As a table for people, as JSON for scripts."""
    options: tuple[str | int | Path, ...]
    options = ("live", "--events-per-second", 500, "--seconds", "0.5", "--seed", 3, "--landing", tmp_path)
    counted = json.loads(invoke(*options, "--json").output)
    assert counted["events"] == sum(each["lines"] for each in counted["kinds"]) == 250
    assert (counted["seed"], counted["late_days"]) == (3, 5)
    shown = invoke(*options)
    assert shown.exit_code == 0
    for expected in ("seed\t3", "events per second\t500", "goes to quarantine", "events\t250", "files\t1"):
        assert expected in shown.output


def test_ctrl_c_ends_live_events_with_their_counts(tmp_path: Path) -> None:
    """It is the way to end them."""
    program = str(Path(sys.executable).with_name("backfill"))
    command = [program, "sample", "live", "--json", "--landing", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            wait_until(lambda: len([*tmp_path.glob("sales/*/live-2*.jsonl.gz")]) > 1, 60)  # the first is counted
            running.send_signal(signal.SIGINT)
            output, _ = running.communicate(timeout=15)
        finally:
            running.kill()
    assert running.returncode == 0
    assert json.loads(output)["events"] >= 10
    assert not list(tmp_path.rglob("*.part"))


REFUSED: Mapping[str, str] = {
    "real --days 2017-03-02..2017-03-01": "Did you mean 2017-03-01..2017-03-02?",
    "real --days soon": "'soon' is not a day",
    "real --days 2030-01-01": "Choose days in 2017-01-01..2018-01-01",
    "real --dataset sea_temperatures --days 2018-01-01": "Choose days in 2016-02-15..2017-03-22",
    "synthetic --days 0": "not between 1 and 3650",
    "synthetic --defects late_row": "not one defect and its count",
    "synthetic --defects late=1": "There is no defect 'late'",
    "synthetic --defects late_row=5,late_row=6": "late_row",
}


def test_an_invalid_request_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """No traceback, a non-zero exit, and nothing landed. A count that is dropped in silence would make tests lie."""
    for typed, message in REFUSED.items():
        result = invoke(*typed.split(), "--landing", tmp_path / "zone")
        assert result.exit_code == 1 and message in result.output
    assert not (tmp_path / "zone").exists()


def test_defects_are_counted_by_name() -> None:
    assert parse_defects(None) is None
    assert parse_defects("none") == {}
    assert parse_defects("late_row=5, broken_line=0") == {"late_row": 5, "broken_line": 0}
