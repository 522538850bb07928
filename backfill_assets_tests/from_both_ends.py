"""Deals out the files of tests to several processes: in their order, and to one of the processes from the other end.

Files that work on Spark are at the front. The process at the other end begins with what waits for other processes, so
that the cores have work meanwhile, and starts a Spark of its own only when nothing else is left there. Small files are
in between: the last process at work has little left to do.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FromBothEnds(LoadFileScheduling):  # type: ignore[misc]  # xdist is published without types
    """The last process takes the last file that is left; each other takes the first one."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        *others, last = self.nodes
        if others and node is last:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
