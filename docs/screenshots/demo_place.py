"""Where the pictures are taken: a lakehouse of its own with seven landed days, the Dagster UI and its daemon.

The last day is half wrong on purpose: the tills of some stores wrote amounts with a decimal comma.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backfill_assets.spark.connect_server import free_port

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = Path("/tmp/backfill-demo")  # noqa: S108  the pictures show it, so it is no folder of anybody's
DAYS = "2017-03-01..2017-03-07"
BAD_DAY = "2017-03-07"
_MARK = "made-by-take-screenshots"
_BROKEN_SHARE = 0.22
"""More than the hundredth that a gate lets pass."""
_PATIENCE = 180.0
_GRACE = 20.0
_EXISTS = 0


def fresh_home() -> dict[str, str]:
    """The demo's folder with its landed days, of which the last is half wrong."""
    environment = landed_home(DAYS)
    _break_the_bad_day()
    return environment


def landed_home(days: str) -> dict[str, str]:
    """The demo's folder with ``days`` landed; returns the environment of every process that works on it."""
    environment = empty_home()
    backfill("sample", "real", "--days", days, within=environment)
    return environment


def empty_home() -> dict[str, str]:
    """Empty the demo's folder, and return the environment of every process that works on it."""
    if HOME.exists() and not (HOME / _MARK).exists():
        raise SystemExit(f"{HOME} is there and was not made by this script: move it away, then run it again.")
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    (HOME / _MARK).touch()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "DAGSTER_"))}
    environment = {**inherited, "BACKFILL_HOME": str(HOME), "PYTHONUNBUFFERED": "1"}
    environment["DAGSTER_HOME"] = _said(
        sys.executable, "-m", "backfill_assets.cli.dev.dagster_home", within=environment
    )
    return environment


def backfill(*words: str, within: dict[str, str]) -> str:
    """What a person types in a terminal; returns what it says."""
    return _said(str(Path(sys.executable).with_name("backfill")), *words, within=within)


def deliver_corrections() -> None:
    """What a source does when it is asked to: the broken lines come again, sound, in a new file."""
    lines = [line for line in _delivered().read_text().splitlines() if '"sales_value"' in line]
    _write(_bad_folder() / "sales_corrected.jsonl.gz", lines)


@contextmanager
def webserver(environment: dict[str, str]) -> Iterator[str]:
    """The address of a Dagster UI of its own; it ends with all it started."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    arguments = ["-m", "dagster_webserver", "-w", "workspace.yaml", "-h", "127.0.0.1", "-p", str(port)]
    with running("webserver", arguments, environment):
        answered(f"{address}/server_info")
        yield address


@contextmanager
def daemon(environment: dict[str, str]) -> Iterator[None]:
    """What runs backfills and sensors; it ends with all it started."""
    with running(
        "daemon", ["-m", "backfill_assets.defs.dagster_internals", "daemon", "run", "-w", "workspace.yaml"], environment
    ):
        yield


@contextmanager
def running(name: str, arguments: list[str], environment: dict[str, str]) -> Iterator[None]:
    with (HOME / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the process, then what is left of its session: code servers and runs."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        told, until = int(ending), time.monotonic() + _GRACE
        while _signalled(process, told) and time.monotonic() < until:
            told = _EXISTS
            time.sleep(0.2)


def _signalled(process: subprocess.Popen[bytes], told: int) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, told)
    except ProcessLookupError:
        return False
    return True


def _said(*command: str, within: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=REPOSITORY, env=within, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def answered(address: str) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310  our own server, by http
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if time.monotonic() > until:
                raise SystemExit(f"The Dagster UI did not answer; see {HOME}/webserver.log.") from None
            time.sleep(1)


# -------------------------------------------------------------------- the bad day


def _break_the_bad_day() -> None:
    """A decimal comma in every line of so many stores that they make up the broken share."""
    (landed,) = _bad_folder().glob("*.jsonl.gz")
    with gzip.open(landed, "rt") as file:
        lines = file.read().splitlines()
    broken = _stores(lines)
    right = [line for line in lines if _store(line) in broken]
    _delivered().write_text("\n".join(right))
    _write(landed, [_with_comma(line) if _store(line) in broken else line for line in lines])


def _stores(lines: list[str]) -> set[str]:
    counts: dict[str, int] = {}
    for line in lines:
        counts[_store(line)] = counts.get(_store(line), 0) + 1
    chosen: set[str] = set()
    while sum(counts[store] for store in chosen) < _BROKEN_SHARE * len(lines):
        chosen.add(min(counts.keys() - chosen))
    return chosen


def _store(line: str) -> str:
    return str(json.loads(line)["store_id"])


def _with_comma(line: str) -> str:
    row = json.loads(line)
    return json.dumps({**row, "sales_value": row["sales_value"].replace(".", ",")})


def _bad_folder() -> Path:
    return HOME / "landing" / "sales" / BAD_DAY


def _delivered() -> Path:
    """The broken lines as they should have been, kept until they are asked for."""
    return HOME / "lines-of-the-broken-tills.jsonl"


def _write(path: Path, lines: list[str]) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(f"{line}\n" for line in lines)
