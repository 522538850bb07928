"""The log of ``backfill dev``: all in a file; on the terminal warnings, errors and launched runs.

An equal warning is shown once in ten minutes, an error with its stack trace.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from backfill_assets import clock

MOST_LINES = 40
AGAIN_AFTER_SECONDS = 600.0
MOST_BYTES = 32 << 20
_LAST_LINES = 15
_LOOK_EVERY_SECONDS = 0.3

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_DAGSTER = re.compile(
    r"\d{4}-\d\d-\d\d (?P<at>\d\d:\d\d:\d\d) [+-]\d{4} - (?P<who>\S+) - (?P<level>[A-Z]+) - (?P<text>.*)"
)
_SPARK = re.compile(r"\d\d/\d\d/\d\d (?P<at>\d\d:\d\d:\d\d) (?P<level>[A-Z]+) (?P<who>[^:\s]+): (?P<text>.*)")
_CRASHED = re.compile(r"Traceback \(most recent call last\)|Fatal Python error|Exception in thread|# A fatal error")
_LEVELS = {"WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"}
_LAUNCHED = re.compile(r"Launched [1-9]\d* runs?\.")
_HARMLESS = re.compile(r"No cursor for event type")
_PASSING = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]+)*|\d+")
"""Messages that differ only in these are equal."""


@dataclass
class Sieve:
    shown_at: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    room: int = 0
    is_repeated: bool = False

    def take(self, raw: str, now: float) -> Iterator[str]:
        line = _COLOURS.sub("", raw.rstrip("\n"))
        begun = _DAGSTER.match(line) or _SPARK.match(line)
        if begun is not None:
            yield from self._begin(f"{begun['at']} {begun['level']} {begun['who']}: {begun['text']}", begun, now)
            return
        if _CRASHED.match(line) and not self.room and not self.is_repeated:
            self.room = MOST_LINES
        yield from self._go_on(line)

    def _begin(self, line: str, begun: re.Match[str], now: float) -> Iterator[str]:
        self.room, self.is_repeated, text = 0, False, begun["text"]
        if _LAUNCHED.match(text):
            yield line
        elif begun["level"] in _LEVELS and not _HARMLESS.match(text):
            yield from self._warn(line, _PASSING.sub("#", f"{begun['who']} {text}"), now)

    def _warn(self, line: str, same: str, now: float) -> Iterator[str]:
        if now - self.shown_at.get(same, -AGAIN_AFTER_SECONDS) < AGAIN_AFTER_SECONDS:
            self.left_out[same], self.is_repeated = self.left_out.get(same, 0) + 1, True
            return
        self.shown_at[same], self.room = now, MOST_LINES
        times = self.left_out.pop(same, 0)
        yield from self._go_on(f"{line} (and {times} times since it was shown)" if times else line)

    def _go_on(self, line: str) -> Iterator[str]:
        if self.room:
            self.room -= 1
            yield line if self.room else f"{line}\n  ... the rest is in the log."


@dataclass(frozen=True)
class DevLog:
    path: Path
    say: Callable[[str], None]

    @contextmanager
    def followed(self) -> Iterator[IO[str]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.path.replace(self._before)
        over = threading.Event()
        with self.path.open("a", encoding="utf-8") as parts_write:
            follower = threading.Thread(target=self._follow, args=(over,), daemon=True)
            follower.start()
            self.say(f"All that Dagster says is in {self.path}; warnings and errors are shown here, too.")
            try:
                yield parts_write
            finally:
                over.set()
                follower.join()

    def last_lines(self) -> str:
        lines = _COLOURS.sub("", self.path.read_text(errors="replace")).splitlines()
        return "\n".join([f"{self.path} ends so:", *lines[-_LAST_LINES:]])

    @property
    def _before(self) -> Path:
        return self.path.with_suffix(f".before{self.path.suffix}")

    def _follow(self, over: threading.Event) -> None:
        sieve = Sieve()
        with self.path.open(encoding="utf-8", errors="replace") as written:
            unfinished = ""
            while True:
                is_last = over.is_set()
                while line := written.readline():
                    unfinished += line
                    if unfinished.endswith("\n"):
                        self._say(sieve.take(unfinished, clock.seconds()))
                        unfinished = ""
                if is_last:
                    return
                self._keep_short(written)
                over.wait(_LOOK_EVERY_SECONDS)

    def _keep_short(self, written: IO[str]) -> None:
        """Parts append, so they go on at the start of the cut file."""
        if written.tell() > MOST_BYTES:
            shutil.copyfile(self.path, self._before)
            os.truncate(self.path, 0)
            written.seek(0)

    def _say(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.say(line)
