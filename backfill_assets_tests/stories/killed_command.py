"""A process that types one command, and kills itself with SIGKILL at the place with a given number.

Run as ``python -m backfill_assets_tests.stories.killed_command NUMBER WORDS..``; with 0 it lives. Places are the crash
points of the protocol, the files that are written once, and what is recorded on timelines. It prints each of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from backfill_assets.cli import main
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.timelines import Timeline
from backfill_assets.publish.publisher import Publisher

PLACE = "place: "


def watch(place: Callable[[str], None]) -> None:
    """Call ``place`` with what has just been done, at every place."""

    def after(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def done(*arguments: Any, **how: Any) -> Any:
            result = original(*arguments, **how)
            place(f"{owner.__name__}.{name}")
            return result

        setattr(owner, name, done)

    for owner, name in ((Storage, "put_if_absent"), (Timeline, "add"), (Timeline, "judge"), (Timeline, "adopt")):
        after(owner, name)
    made = Publisher.__init__

    def init(publisher: Publisher, *arguments: Any, **how: Any) -> None:
        made(publisher, *arguments, **how)
        publisher.reached = lambda step, about: place(step.value)

    Publisher.__init__ = init  # type: ignore[method-assign,assignment]


def dying_at(number: int) -> Callable[[str], None]:
    reached: list[str] = []

    def place(name: str) -> None:
        reached.append(name)
        print(f"{PLACE}{name}", file=sys.stderr, flush=True)
        if len(reached) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    return place


if __name__ == "__main__":
    watch(dying_at(int(sys.argv[1])))
    main(sys.argv[2:])
