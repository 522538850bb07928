"""The process of a stream: started by a run, stopped in order, and ended with the run however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from backfill_assets.errors import StreamFailed

_LAST_LINES = 20
_PATIENCE_SECONDS = ((signal.SIGINT, 45.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""What a stream is sent to stop, gentlest first, and how long each is waited for."""
# The run may be killed: then its end of the pipe closes, and the stream is interrupted as if by Ctrl-C.
_ENDED_WITH_ITS_RUN = """
exec 3<&0 </dev/null
(read -r ended <&3 || kill -INT $$) >/dev/null 2>&1 &
exec 3<&-
exec "$@"
"""


@dataclass
class StreamChild:
    """A running process, and the last lines that it wrote to standard error."""

    process: subprocess.Popen[str]
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    _readers: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def start(
        cls, command: Sequence[str], variables: Mapping[str, str | None], write: Callable[[str], object]
    ) -> StreamChild:
        """Start ``command``; each line of its output goes to ``write``. A variable that is None is taken away."""
        environment = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
        process = subprocess.Popen(
            ["/bin/sh", "-c", _ENDED_WITH_ITS_RUN, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            # A signal to the whole group of the run would interrupt it twice.
            start_new_session=True,
        )
        child = cls(process)
        child._read(process.stdout, write)
        child._read(process.stderr, child._remember(write))
        return child

    def _remember(self, write: Callable[[str], object]) -> Callable[[str], object]:
        def remember(line: str) -> None:
            self.last_lines.append(line)
            write(line)

        return remember

    def _read(self, pipe: IO[str] | None, write: Callable[[str], object]) -> None:
        def copy() -> None:
            if pipe is None:
                return
            with pipe:
                for line in pipe:
                    write(line)

        self._readers.append(threading.Thread(target=copy, daemon=True))
        self._readers[-1].start()

    def wait(self, seconds: float) -> int | None:
        """The exit code, waiting for it at most so long; None while the process runs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """Let it publish what it has and end; a process that does not is killed, which loses nothing either."""
        for number, seconds in _PATIENCE_SECONDS:
            if self.process.poll() is None:
                self.process.send_signal(number)
                self.wait(seconds)
        self._dismiss_watch()
        for reader in self._readers:
            reader.join(1)

    def _dismiss_watch(self) -> None:
        if self.process.stdin and not self.process.stdin.closed:
            with suppress(OSError), self.process.stdin as pipe:
                pipe.write("\n")

    def require_success(self, table: str) -> None:
        """Raise :class:`StreamFailed` with the last words of a process that has ended with an error."""
        code = self.process.returncode
        if code:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
            words = "".join(self.last_lines).strip() or "It wrote no error."
            hint = "What it published stays. Put right what it names, then materialize this asset again."
            raise StreamFailed(f"The stream of {table} {how}.\n{words}", hint=hint)
