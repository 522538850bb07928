"""A run that is silent for a minute says what it waits for."""

from __future__ import annotations

import threading

import pytest

from backfill_assets.rebuild import lake as waiting_module
from backfill_assets.rebuild.lake import waiting


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "SILENT_SECONDS", 0.01)


def test_what_takes_long_is_reported_again_and_again() -> None:
    told: list[str] = []
    twice = threading.Event()

    def tell(message: str) -> None:
        told.append(message)
        if len(told) == 2:
            twice.set()

    with waiting(tell, "fact: Spark computes a day"):
        assert twice.wait(5)
    count = len(told)
    assert told[0] == "Waiting: fact: Spark computes a day, 0 s so far"
    threading.Event().wait(0.02)
    assert len(told) == count


def test_what_is_quick_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting_module, "SILENT_SECONDS", 60.0)
    told: list[str] = []
    with waiting(told.append, "fact: Spark computes a day"):
        pass
    assert told == []


def test_the_error_of_the_work_comes_first_and_that_of_the_report_is_not_lost() -> None:
    """The report may extend a hold: a build that cannot do that must not go on."""
    failed = threading.Event()

    def fail(message: str) -> None:
        failed.set()
        raise ValueError(message)

    with pytest.raises(ValueError, match="Waiting: fact, 0 s so far"), waiting(fail, "fact"):
        failed.wait(5)
    with pytest.raises(KeyError), waiting(fail, "fact"):
        raise KeyError("the work")
