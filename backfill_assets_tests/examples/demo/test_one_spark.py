"""The demo's Spark: started only if it is needed, beside other work, and never left running."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.examples.demo import one_spark
from backfill_assets.examples.demo.one_spark import OneSpark
from backfill_assets.examples.demo.progress import Phases
from backfill_assets.settings import Settings


@dataclass
class FakeServer:
    """Answers at once."""

    url: str = "sc://127.0.0.1:4711"
    stopped: int = 0

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    found = FakeServer()
    monkeypatch.setattr(one_spark, "start_connect_server", lambda settings: found)
    return found


def test_it_is_started_once_and_stopped(server: FakeServer, tmp_path: Path) -> None:
    """Begun while data lands, and used by every run."""
    with OneSpark(Settings.at(tmp_path), phases := Phases()) as spark:
        spark.start()
        assert spark.ready().spark_remote == server.url
        assert server.stopped == 0
    assert server.stopped == 1
    assert list(phases.seconds) == ["Starting Spark"]


def test_an_error_stops_it_too(server: FakeServer, tmp_path: Path) -> None:
    """Also one that comes while it is starting."""

    def interrupted() -> None:
        with OneSpark(Settings.at(tmp_path), Phases()) as spark:
            spark.start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert server.stopped == 1


def test_without_work_none_is_started(server: FakeServer, tmp_path: Path) -> None:
    """A second demo."""
    with OneSpark(Settings.at(tmp_path), Phases()):
        pass
    assert server.stopped == 0


def test_a_server_that_runs_already_is_used_and_left(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name in the settings."""
    settings = Settings.from_environment({"SPARK_REMOTE": "sc://127.0.0.1:15002", "BACKFILL_HOME": str(tmp_path)})
    with OneSpark(settings, Phases()) as spark:
        spark.start()
        assert spark.ready() is settings
    assert server.stopped == 0


def test_one_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is needed; ending the demo must not hide it."""

    def refused(settings: Settings) -> FakeServer:
        raise LakehouseUnusable("No Java.")

    monkeypatch.setattr(one_spark, "start_connect_server", refused)
    with pytest.raises(LakehouseUnusable, match="No Java"), OneSpark(Settings.at(tmp_path), Phases()) as spark:
        spark.ready()
