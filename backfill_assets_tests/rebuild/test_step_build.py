"""Chunks of a build: the next one is written while the one before is judged, and all of them are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets.days import Cadence
from backfill_assets.model.declaration import Version
from backfill_assets.rebuild import decide
from backfill_assets.rebuild import step_build as module
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.place import NOTHING_LAID
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepLook, StepRequest

DAYS = [date(2017, 3, day) for day in (1, 2, 3)]
ANY: Any = None
LOOK = StepLook(ANY, NOTHING_LAID, dict.fromkeys(DAYS, Version("v1", "", (), dict)), {}, {}, {})


def build(monkeypatch: pytest.MonkeyPatch, write_chunk: Callable[..., Any], said: list[str]) -> StepBuild:
    """A build of a table whose chunks have one day each."""
    lake: Any = SimpleNamespace(
        catalog=None, token_key_file="", spark=lambda: None, storage=None, timelines=lambda *_: {}
    )
    step: Any = SimpleNamespace(name="fact", tables=(), table_names=(), cadence=Cadence.DAILY)
    made = StepBuild(lake, StepRequest(step, DAYS), RunInfo("r"), said.append)
    monkeypatch.setattr(decide, "chunks", lambda days, _: [[day] for day in days])
    monkeypatch.setattr(made, "bytes_of_day", lambda *_: 1)
    monkeypatch.setattr(module, "write_chunk", write_chunk)
    return made


def test_a_chunk_is_judged_while_the_next_one_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each verdict waits until the chunk after it is being written: one after the other, it would wait in vain."""
    writing = {day: Event() for day in DAYS}
    said: list[str] = []

    def write(_: object, __: object, chunk: Any, ___: object, judging: ThreadPoolExecutor) -> Future[list[Any]]:
        (day,) = chunk.days
        writing[day].set()
        after = [later for later in DAYS if later > day][:1]

        def judged() -> list[Any]:
            assert all(writing[later].wait(20) for later in after), "the next chunk is not written yet"
            return [SimpleNamespace(day=day)]

        return judging.submit(judged)

    made = build(monkeypatch, write, said)
    made.compute(DAYS, LOOK)
    assert sorted(made.staged) == DAYS and made.computed == set(DAYS)
    assert [line.split(",")[0] for line in said] == [f"fact: {n}/3 days staged" for n in (1, 2, 3)]


@pytest.mark.parametrize("bad", DAYS)
def test_a_chunk_that_cannot_be_judged_ends_the_build(monkeypatch: pytest.MonkeyPatch, bad: date) -> None:
    """Also the last one, after which nothing is written."""

    def write(_: object, __: object, chunk: Any, ___: object, judging: ThreadPoolExecutor) -> Future[list[Any]]:
        def judged() -> list[Any]:
            if chunk.days == [bad]:
                raise ValueError(f"{bad} cannot be read")
            return [SimpleNamespace(day=chunk.days[0])]

        return judging.submit(judged)

    made = build(monkeypatch, write, [])
    with pytest.raises(ValueError, match=str(bad)):
        made.compute(DAYS, LOOK)
    assert bad not in made.staged


def test_more_than_a_day_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    build(monkeypatch, lambda *_: None, said).report_staged(1, 1_001, time.monotonic() - 100)
    assert said == ["fact: 1/1001 days staged, ETA 100000 s"]


def test_days_that_lack_an_input_are_none_of_an_earlier_run(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    made = build(monkeypatch, lambda *_: None, said)
    made.staged = {DAYS[0]: []}
    made.take_staged([], LOOK)
    assert said == []
