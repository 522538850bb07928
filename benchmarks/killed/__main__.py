"""``python -m benchmarks.killed``: each entrant plays the same workload, and the same judges say what its readers saw.

Prints a table in markdown. Histories are kept with ``--keep FOLDER``, so that others may judge them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from backfill_assets_tests.simulator.history import History, Operation
from backfill_assets_tests.simulator.judges import cycles, linearizable
from backfill_assets_tests.simulator.judges.verdict import Verdict
from benchmarks.killed.contract import Held
from benchmarks.killed.play import Entrant, Played, is_whole, play
from benchmarks.killed.postgres import is_there, postgres

PEERS = Path(__file__).resolve().parents[2] / ".cache" / "bench" / "killed" / "bin" / "python"
_CONTENDERS = "benchmarks.killed.contenders"
ENTRANTS = {
    "ours": Entrant("this project", f"{_CONTENDERS}.publisher", ways_to_read=("pinned", "past the log")),
    "replace-where": Entrant("`replaceWhere`, table by table", f"{_CONTENDERS}.replace_where"),
    "sqlmesh": Entrant("SQLMesh's restatement", f"{_CONTENDERS}.sqlmesh_restatement", PEERS, postgres),
    "ducklake": Entrant("DuckLake, one transaction", f"{_CONTENDERS}.ducklake", PEERS),
}
_COLUMNS = (
    "how",
    "killed, of rewrites",
    "reads of all tables",
    "what they saw",
    "each table by itself",
    "kills that left tables apart",
    "left at the end, and after its routine",
    "files left",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=ENTRANTS, action="append")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    print(_row(_COLUMNS), _row(["---"] * len(_COLUMNS)), sep="\n", flush=True)
    for name in asked.only or ENTRANTS:
        entrant = ENTRANTS[name]
        if entrant.around is postgres and not is_there():
            print(f"| {entrant.name} | not played: PostgreSQL is not installed here |", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="killed-") as folder:
            played = play(entrant, Path(folder), asked.kills, asked.seed)
        if asked.keep:
            asked.keep.mkdir(parents=True, exist_ok=True)
            (asked.keep / f"{name}.jsonl").write_text(played.history.to_json())
        print("\n".join(rows(played)), flush=True)


def rows(played: Played) -> list[str]:
    """One row, and one more for readers who pin nothing where they are others."""
    publications = [each for each in played.history if each.kind == "publish"]
    reads = [each for each in played.history if each.kind == "read"]
    pinned, apart = [read for read in reads if read.pinned], [read for read in reads if not read.pinned]
    together = cycles.verdict(History((*publications, *pinned)))
    cells = [
        played.entrant.name,
        f"{played.kills} of {len(publications) - 1}, {played.rewrite_seconds:g} s each",
        _number(pinned, played),
        _saw(together),
        _of_tables(publications, pinned, apart),
        f"{played.apart}",
        f"{_state(played.left)}; {_state(played.after_routine)}",
        f"{played.litter}",
    ]
    found = [_row(cells)]
    if apart:
        seen = cycles.verdict(History((*publications, *apart))).seen
        told = "; ".join(f"{name}: {times}" for name, times in seen.items()) or "nothing"
        found.append(_row([f"{played.entrant.name}, read past the log", "", f"{len(apart):,}", told, "", "", "", ""]))
    return found


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(reads: list[Operation], played: Played) -> str:
    return f"{len(reads):,}" + (f", {len(played.refused)} refused" if played.refused else "")


def _saw(verdict: Verdict) -> str:
    return "; ".join(f"{anomaly.name}: {anomaly.times}" for anomaly in verdict.anomalies) or "nothing"


def _of_tables(publications: list[Operation], pinned: list[Operation], apart: list[Operation]) -> str:
    """Where nobody reads past a log, there is none: each table is judged by what those saw who read all of them."""
    reads = [*pinned, *apart] if apart else [replace(read, pinned=False) for read in pinned]
    verdict = linearizable.verdict(History((*publications, *reads)))
    names = [each.name for each in verdict.anomalies if apart or not each.name.endswith(linearizable.LOG)]
    return "; ".join([*names, *verdict.undecided]) or "linearizable"


def _state(values: Held) -> str:
    return "whole" if is_whole(values) else "apart"


if __name__ == "__main__":
    main()
