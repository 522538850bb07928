from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from backfill_assets import clock
from backfill_assets.cli.output import console, say

_DONE, _FAILED, _RUNNING, _WAITING = "done", "failed", "running", "waiting"
_STATES = {"SUCCESS": _DONE, "FAILURE": _FAILED, "SKIPPED": "not run", "": _WAITING}


@dataclass(frozen=True)
class BackfillProgress:
    """``steps``: status in the newest run that reached it."""

    backfill_id: str
    status: str
    steps: Mapping[str, str]
    step_seconds: Mapping[str, float]
    message: str = ""
    error: str = ""
    failure: str = ""


Show = Callable[[BackfillProgress], None]


class Phases:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = clock.seconds()
        say(f"{name} ...", style="bold")
        yield
        self.seconds[name] = clock.seconds() - started


@contextmanager
def shown(steps: Sequence[str]) -> Iterator[Show]:
    """Each line once; on a terminal also what is waited for."""
    began, said = clock.seconds(), set[str]()
    with console().status("") as status:

        def show(now: BackfillProgress) -> None:
            status.update(f"backfill {now.backfill_id}, {_clock(began)}: {happening(now, steps)}")
            for step, state, took, note in step_rows(now, steps):
                line = f"  {step:<26} {state:<8} {note or (took if state == _DONE else '')}".rstrip()
                if state != _WAITING and line not in said:
                    said.add(line)
                    say(f"{_clock(began)}{line}")

        yield show


def step_rows(now: BackfillProgress, steps: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """Step, state, seconds and note, by beginning."""
    about, _, note = now.message.partition(": ")
    rows = []
    for step in dict.fromkeys((*now.steps, *steps)):
        state = _STATES.get(now.steps.get(step, ""), _RUNNING)
        took = f"{now.step_seconds[step]:.0f} s" if step in now.step_seconds else ""
        rows.append((step, state, took, note if state == _RUNNING and about == step else ""))
    return rows


def happening(now: BackfillProgress, steps: Sequence[str]) -> str:
    states = [state for _, state, *_ in step_rows(now, steps)]
    if _FAILED in states:
        return "a step failed, Dagster is closing the backfill"
    if not now.steps:
        return "waiting for Dagster's daemon to start the run"
    if set(states) == {_DONE}:
        return "every step is done, Dagster is closing the backfill"
    return f"{states.count(_DONE)} of {len(states)} steps done"


def _clock(began: float) -> str:
    seconds = int(clock.seconds() - began)
    return f"{seconds // 60:02d}:{seconds % 60:02d}"
