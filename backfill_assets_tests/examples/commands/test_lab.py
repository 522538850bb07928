"""``backfill lab``: prints a table for each hazard, writes pages, and leaves no folder behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from backfill_assets.cli import main
from backfill_assets.examples.commands import lab
from backfill_assets.examples.commands.lab import NAMES
from backfill_assets.examples.lab.counts import Hazard, WayCounts
from backfill_assets.examples.lab.ways import Workbench
from backfill_assets.settings import Settings
from backfill_assets_tests.examples.lab.played import PLAIN, SAFE, TEXT

Ways = dict[str, tuple[WayCounts, ...]]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """No Spark, and hazards that are played already: all as expected, but for the ways that are given here."""
    others: Ways = {}

    def play(bench: Workbench, name: str, *_: object) -> Hazard:
        (bench.folder / name).mkdir()
        bench.step(f"{name}: a way ...")
        return Hazard(replace(TEXT, name=name), others.get(name, (PLAIN, SAFE)), str(bench.folder / name))

    monkeypatch.setattr(lab, "foreground_spark", lambda *_: cast("Any", None))
    monkeypatch.setattr(lab, "_quiet", lambda spark: spark)
    monkeypatch.setattr(Workbench, "warm_up", lambda *_: None)
    monkeypatch.setattr(Workbench, "play", play)
    return others


def test_one_hazard_prints_its_table_and_its_sentence(played: Ways) -> None:
    done = CliRunner().invoke(main, ["lab", "collision"])
    assert done.exit_code == 0, done.output
    assert "plain job" in done.stdout and "30 rows missing, 10 rows doubled" in done.stdout
    assert "this project: Seen." in done.stdout and "\x1b" not in done.stdout
    assert "collision: a way ..." in done.stderr and "is removed" in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "is removed" in line]
    assert not Path(line.split()[1]).exists()


def test_all_of_them_as_json_in_order(played: Ways) -> None:
    done = CliRunner().invoke(main, ["lab", "all", "--json"])
    assert [each["hazard"] for each in json.loads(done.stdout)] == list(NAMES)


def test_the_folder_is_kept_on_request(played: Ways) -> None:
    done = CliRunner().invoke(main, ["lab", "scale", "--json", "--keep"])
    folder = Path(json.loads(done.stdout)[0]["folder"])
    assert folder.is_dir() and f"{folder.parent} has each way's tables" in done.stderr
    folder.rmdir()
    folder.parent.rmdir()


def test_pages_are_written_where_they_are_asked_for(played: Ways, tmp_path: Path) -> None:
    """A page and its chart side by side."""
    assert CliRunner().invoke(main, ["lab", "repeat", "--pages", str(tmp_path)]).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"repeat.md", "repeat.svg"}
    assert "](repeat.svg)" in (tmp_path / "repeat.md").read_text()


def test_counts_that_are_not_as_expected_fail_and_an_unknown_hazard_is_refused(played: Ways) -> None:
    played["repeat"] = (PLAIN, replace(SAFE, tables=PLAIN.tables))
    done = CliRunner().invoke(main, ["lab", "all"])
    assert done.exit_code == 1 and "The counts are not as expected: repeat." in done.stderr
    done = CliRunner().invoke(main, ["lab", "colision"])
    assert done.exit_code == 2 and "collision" in done.output


def test_it_runs_on_an_embedded_spark(tmp_path: Path) -> None:
    """Also where runs share a server, and the lakehouse is in a store: the lab has its own."""
    environment = {"BACKFILL_HOME": str(tmp_path), "SPARK_REMOTE": "sc://127.0.0.1:15002"}
    shared = Settings.from_environment(environment | {"BACKFILL_LAKEHOUSE": "s3://bucket/prefix"})
    assert shared.lakehouse_on_s3
    assert lab._embedded(shared) == lab._embedded(Settings.at(tmp_path)) == Settings.at(tmp_path)
