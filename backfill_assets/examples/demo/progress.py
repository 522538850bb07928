"""How ``backfill demo`` shows its phases and a backfill: in place on a terminal, elsewhere a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from backfill_assets.cli.output import console, say

if TYPE_CHECKING:
    from backfill_assets.examples.demo.follow import BackfillProgress

_DONE, _FAILED, _RUNNING, _WAITING, _SKIPPED = "done", "failed", "running", "waiting", "not run"
_MARKS = {"SUCCESS": _DONE, "FAILURE": _FAILED, "SKIPPED": _SKIPPED}
_SECONDS = 3
_COLOURS = {_DONE: "green", _FAILED: "red", _RUNNING: "yellow"}


class Phases:
    """Names each phase while it runs and keeps its seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        say(f"{name} ...", style="bold")
        yield
        self.seconds[name] = time.monotonic() - started


@dataclass
class BackfillProgressView:
    """What is known of the backfill now, beside the steps that it will have."""

    steps: Sequence[str]
    now: BackfillProgress
    began: float = field(default_factory=time.monotonic)
    notes: dict[str, str] = field(default_factory=dict)
    """The newest message of each step about its days."""
    begun: dict[str, float] = field(default_factory=dict)

    def hear(self, newest: BackfillProgress) -> None:
        self.now = newest
        for step in newest.steps:
            self.begun.setdefault(step, time.monotonic())
        step, separator, note = newest.message.partition(": ")
        if separator:
            self.notes[step] = note

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def names(self) -> list[str]:
        """The steps in the order in which they began, then those that wait."""
        begun = list(self.now.steps)
        return begun + [step for step in self.steps if step not in begun]

    def state(self, step: str) -> str:
        if step not in self.now.steps:
            return _WAITING
        return _MARKS.get(self.now.steps[step], _RUNNING)

    def took(self, step: str) -> str:
        """Seconds of a step that has begun, as Dagster says; as seen from here while it runs."""
        if self.state(step) == _WAITING:
            return ""
        here = time.monotonic() - self.begun.get(step, time.monotonic())
        return f"{float(self.now.step_seconds.get(step, here)):.0f} s"

    def detail(self, step: str) -> str:
        """Of a step that runs, the days it has staged and the time left."""
        return self.notes.get(step, "") if self.state(step) == _RUNNING else ""

    @property
    def headline(self) -> str:
        return f"backfill {self.now.backfill_id}, {_clock(self.seconds)}: {self._happening()}"

    def _happening(self) -> str:
        states = [self.state(step) for step in self.names]
        if _FAILED in states:
            return "a step failed, Dagster is closing the backfill"
        if not self.now.steps:
            return "waiting for Dagster's daemon to start the run"
        if set(states) == {_DONE}:
            return "every step is done, Dagster is closing the backfill"
        return f"{states.count(_DONE)} of {len(states)} steps done"


@contextmanager
def shown(progress: BackfillProgressView) -> Iterator[Callable[[BackfillProgress], None]]:
    """Show the progress; yields the function that takes each change of the backfill."""
    screen = console()
    if not screen.is_terminal:
        yield _Lines(progress).hear
        return
    spinner = Spinner("dots")
    with Live(console=screen, refresh_per_second=4, get_renderable=lambda: _picture(progress, spinner)):
        yield progress.hear


def _picture(progress: BackfillProgressView, spinner: Spinner) -> RenderableType:
    spinner.update(text=Text(progress.headline))
    steps = Table.grid(padding=(0, 2))
    for column in range(5):
        steps.add_column(justify="right" if column == _SECONDS else "left")
    for step in progress.names:
        state = progress.state(step)
        colour = _COLOURS.get(state, "dim")
        steps.add_row("", step, Text(state, style=colour), progress.took(step), progress.detail(step))
    return Group(spinner, steps)


@dataclass
class _Lines:
    """For logs and pipes: each thing once, as a line."""

    progress: BackfillProgressView
    said: set[str] = field(default_factory=set)

    def hear(self, newest: BackfillProgress) -> None:
        self.progress.hear(newest)
        for step in self.progress.names:
            state, detail = self.progress.state(step), self.progress.detail(step)
            took = self.progress.took(step) if state == _DONE else ""
            if state != _WAITING:
                self._say_once(f"  {step:<26} {state:<8} {detail or took}".rstrip())

    def _say_once(self, line: str) -> None:
        if line not in self.said:
            self.said.add(line)
            say(f"{_clock(self.progress.seconds)}{line}")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
