"""A PostgreSQL server for as long as it is needed, from the machine's own programs; it listens at a socket only."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = "postgres"


def is_there() -> bool:
    """Its programs are on the PATH."""
    return all(map(shutil.which, ("initdb", "postgres", "pg_isready")))


@contextmanager
def postgres(home: Path) -> Iterator[None]:
    """Listens in ``home``. It refuses to run as root, so root runs it as the user that Debian makes for it."""
    user = _USER if os.geteuid() == 0 else None
    if user:
        shutil.chown(home, user)
        home.chmod(0o777)
    data = home / "postgres"
    subprocess.run(
        [_program("initdb"), "-D", str(data), "-U", _USER, "-A", "trust"], user=user, check=True, capture_output=True
    )
    command = [_program("postgres"), "-D", str(data), "-k", str(home), "-c", "listen_addresses="]
    with (home / "postgres.log").open("w") as log:
        server = subprocess.Popen(command, user=user, stdout=log, stderr=log)
    try:
        _await(home)
        yield
    finally:
        server.terminate()
        server.wait()


def _await(home: Path, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while subprocess.run([_program("pg_isready"), "-h", str(home)], check=False, capture_output=True).returncode:
        if time.monotonic() > until:
            raise TimeoutError((home / "postgres.log").read_text())
        time.sleep(0.1)


def _program(name: str) -> str:
    return shutil.which(name) or name
