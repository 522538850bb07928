"""The log, and each table by itself, are linearizable: porcupine says so, from a history as lines of JSON.

What is asked is the model in ``porcupine/model.go``. The program is built once for a machine into ``.cache``; where
there is no Go to build it with, this judge says so and decides nothing. In CI, that is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges.verdict import Anomaly, Verdict, at, named, settled

JUDGE = "porcupine"
NOT_LINEARIZABLE, LOG = "not linearizable", "the log"
SOURCES = Path(__file__).with_name("porcupine")
BUILT = Path(__file__).parents[3] / ".cache" / "porcupine"
MOST_TOLD = 3


class NotBuilt(Exception):
    """There is no Go here, or it could not build the program; says which."""


def verdict(history: History, *, seconds: float = 30.0) -> Verdict:
    """Of the log with what is pinned to it, and of each table that was read by itself; ``seconds`` for each of them."""
    try:
        judge = program()
    except NotBuilt as error:
        if has_to_be_there():
            raise
        return Verdict(JUDGE, undecided=(str(error),))
    found = settled(history)
    command = [str(judge), "-timeout", f"{seconds}s"]
    done = subprocess.run(command, input=found.to_json(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"porcupine could not read the history: {done.stderr.strip()}")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    undecided = [f"{each['object']} after {seconds:g} s" for each in told if each["decided"] == "Unknown"]
    anomalies = [_anomaly(each, found) for each in told if each["decided"] == "Illegal"]
    return Verdict(JUDGE, tuple(anomalies), tuple(undecided))


def has_to_be_there() -> bool:
    """Where ``JUDGES`` is set, as CI does: nobody reads there what a judge left undecided."""
    return bool(os.environ.get("JUDGES"))


def program() -> Path:
    """The built judge; another version of its sources is another file.

    Raises:
        NotBuilt: there is none, and none can be built here.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()[:16]
    built = BUILT / f"linearizable-{digest}"
    if built.exists():
        return built
    go = shutil.which("go")
    if go is None:
        raise NotBuilt("Go is not installed, so nobody has looked whether the log and the tables are linearizable")
    BUILT.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_name(f"{built.name}.{os.getpid()}")
    command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", str(unfinished), "."]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotBuilt(f"Go could not build porcupine's judge: {done.stderr.strip()}")
    unfinished.replace(built)
    return built


def _anomaly(told: dict[str, Any], history: History) -> Anomaly:
    stuck = told["stuck"][:MOST_TOLD]
    operations = tuple(history.operations[each["line"]] for each in stuck)
    more = len(told["stuck"]) - len(stuck)
    why = "; ".join([*_reasons(stuck, history), *([f"and {more} more"] if more else [])])
    order = f"{told['placed']} of {told['operations']} steps can be put in order, then none fits"
    return Anomaly(f"{NOT_LINEARIZABLE}: {told['object']}", f"{order}: {why}", operations, max(1, len(told["stuck"])))


def _reasons(stuck: list[dict[str, Any]], history: History) -> Iterator[str]:
    for each in stuck:
        operation = history.operations[each["line"]]
        verb = "saw" if operation.kind == "read" else "replaced"
        if "key" in each:
            (table, day), saw, there = each["key"], each["saw"] or "nothing", each["there"] or "nothing"
            yield f"{named(operation)} {verb} {saw} on {at((table, day))}, where {there} is"
        else:
            yield f"{named(operation)} is at version {operation.position} of the log, which was at {each['head']}"
