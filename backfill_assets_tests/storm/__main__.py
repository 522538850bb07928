"""``make storm SECONDS=180``: processes that work on one lakehouse at once, and are killed with -9 at random moments.

They do what the simulator's actors do (``ACTORS="publisher reader"`` names some), on a real storage and with delta-rs;
beside them a platform runs OPTIMIZE and VACUUM, streams want one lease, and timelines get names. Some are stopped and
go on later. The clock runs fast, so that the log is folded and files are reclaimed meanwhile.

Afterwards a new process recovers, and the simulator's judges look at every commit, every read and every answer. Exit
code 0: they have found nothing. What they could not decide is said. ``--s3`` plays it on a server that speaks S3.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from backfill_assets_tests.simulator.play import cast_of
from backfill_assets_tests.storm.actors import CHOICE, DEFAULT
from backfill_assets_tests.storm.played import place_of, storm


def main(arguments: Sequence[str]) -> int:
    asked = (parser := _parser()).parse_args(arguments)
    kinds = asked.actors.split() or DEFAULT
    if strangers := [kind for kind in kinds if kind.partition("-")[0] not in CHOICE]:
        parser.error(f"there is no actor {', '.join(strangers)}; they are {', '.join(CHOICE)}")
    with ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place = stack.enter_context(place_of(folder, asked.seed, on_s3=asked.s3))
        report = storm(place, cast_of(asked.seed, kinds), asked.seconds, asked.every, patience=asked.patience)
    print(json.dumps(report.as_json(), indent=2) if asked.json else "\n".join([f"Seed {asked.seed}.", *report.lines()]))
    return 1 if report.wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the kills and of every choice")
    parser.add_argument("--actors", default="", help=f"of {', '.join(CHOICE)}; without, {' '.join(DEFAULT)}")
    parser.add_argument("--every", type=float, default=0.7, help="seconds between kills and stops, on the average")
    parser.add_argument("--patience", type=float, default=60, help="seconds that porcupine may take for a table")
    parser.add_argument("--s3", action="store_true", help="on a server that speaks S3, not in a folder")
    parser.add_argument("--keep", type=Path, help="a folder for the notes and the commits, which can be judged again")
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
