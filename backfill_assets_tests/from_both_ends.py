"""Deals out the files of tests to several processes: in their order, and to one of the processes from the other end.

Files that work on Spark are at the front. The process at the other end begins with what waits for other processes, so
that the cores have work meanwhile, and starts a Spark of its own only when nothing else is left there. Small files are
in between: the last process at work has little left to do.

Files at a small size that ask one server are one piece of work: it is started in one process, and warm after the first
of them. To start a Spark Connect server costs 15 CPU seconds, which is more than most of these files.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_FIXTURES_OF_SERVERS = {
    "the Connect server": re.compile(r"\b(?:connect_spark|connect_settings|connect_server_for_tests|each_spark)\b"),
    "the Kafka broker": re.compile(r"\bkafka_broker\b"),
}


@cache
def server_of(file: Path) -> str:
    """The server that tests of ``file`` share with those of other files; empty if there is none."""
    source = file.read_text() if file.is_file() else ""
    return next((name for name, fixtures in _FIXTURES_OF_SERVERS.items() if fixtures.search(source)), "")


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]  # xdist is published without types
    """The last process takes the last piece that is left; each other takes the first one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        in_full_size = self.config.option.markexpr == "long"
        return (not in_full_size and server_of(self.config.rootpath / file)) or file

    def _assign_work_unit(self, node: WorkerController) -> None:
        *others, last = self.nodes
        if others and node is last:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
