"""The Spark of a demo: one Connect server that all runs share; a JVM for each run would cost more than its work."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from backfill_assets.examples.demo.progress import Phases
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import ConnectServer, start_connect_server


@dataclass
class OneSpark:
    """Starts in the background when it is known to be needed, and is stopped at the end, however that comes.

    A server that the settings name is used, and left running.
    """

    settings: Settings
    phases: Phases
    _starting: Future[ConnectServer] | None = None
    _starter: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def start(self) -> None:
        """Begin; a second call does nothing."""
        if self._starting is None and not self.settings.spark_remote:
            self._starting = self._starter.submit(start_connect_server, self.settings)

    def ready(self) -> Settings:
        """Settings with the server, once it answers."""
        self.start()
        if self._starting is None:
            return self.settings
        with self.phases("Starting Spark"):
            server = self._starting.result()
        return replace(self.settings, spark_remote=server.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._starter.shutdown()
        if self._starting is not None and self._starting.exception() is None:
            self._starting.result().stop()
