"""Set-up goes on without an archive of Spark's classes: that only makes starts slower."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backfill_assets.settings import Settings
from backfill_assets.spark import archive_classes

pytestmark = pytest.mark.fast


@pytest.fixture
def file(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive of an earlier set-up is; a copy of the settings keeps it apart from the real one."""
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    monkeypatch.setenv("BACKFILL_JARS", str(tmp_path / "cache" / "jars"))
    monkeypatch.setenv("BACKFILL_SPARK_CONF", str(settings.spark_conf))
    return tmp_path / "cache" / "class-archive" / "spark.jsa"


def test_a_machine_that_is_too_slow_for_it_is_set_up_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run_out_of_time(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 300)

    monkeypatch.setattr(subprocess, "run", run_out_of_time)
    assert archive_classes.main() == 0
    said = capsys.readouterr().out
    assert "not built within 300 s" in said
    assert "Spark starts slower" in said
    assert "backfill doctor --fix" in said
    assert not file.exists()


def test_a_spark_that_cannot_build_a_day_ends_set_up(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "No space left on device")

    monkeypatch.setattr(subprocess, "run", fail)
    assert archive_classes.main() == 1
    assert "No space left on device" in capsys.readouterr().err
    assert not file.exists()
