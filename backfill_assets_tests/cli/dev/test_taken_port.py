"""``make dev`` where it cannot be: it says so before it starts anything, and what to do."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from backfill_assets.cli.dev.taken_port import DevRefused, port_of, require_free_port, require_place
from backfill_assets.cli.running_dev import noted_dev
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import answers, free_port

ROOT = Path(__file__).parents[3]
_LISTEN = """
import socket, sys, time
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
time.sleep(60)
"""


@pytest.fixture
def taken() -> Iterator[int]:
    """The port at which this process listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening.getsockname()[1]


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def test_the_command_says_so_and_starts_nothing(tmp_path: Path, taken: int) -> None:
    """Not Spark, which takes ten seconds, nor parts that end five times."""
    ended = subprocess.run(
        [sys.executable, "-m", "backfill_assets.cli.dev.dev", "--port", str(taken)],
        cwd=ROOT,
        env=os.environ | {"BACKFILL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, hint = ended.stderr.splitlines()
    assert first.startswith(f"Port {taken} is taken by process {os.getpid()}, ")
    assert re.fullmatch(rf"  -> End what has it: kill {os.getpid()}\. Or take another port: PORT=\d+ make dev\.", hint)
    assert list(tmp_path.iterdir()) == []


def test_a_free_port_is_no_obstacle(tmp_path: Path) -> None:
    require_place(Settings.at(tmp_path), _address(free_port()))


def test_make_dev_of_the_same_home_is_linked(tmp_path: Path) -> None:
    """On any port: two daemons of one lakehouse would get in each other's way."""
    settings = Settings.at(tmp_path)
    with (
        noted_dev(settings, _address(3105), "sc://127.0.0.1:1"),
        pytest.raises(DevRefused, match=rf"runs already: {_address(3105)}/assets/start_here") as error,
    ):
        require_place(settings, _address(free_port()))
    assert f"kill {os.getpid()}" in str(error.value.hint)


@pytest.mark.parametrize(
    ("home", "said"),
    [
        ("", "Dagster's UI that an earlier start for this lakehouse has left behind"),
        ("elsewhere", "Dagster's UI with DAGSTER_HOME={}/elsewhere/dagster"),
    ],
)
def test_the_ui_of_a_lakehouse_is_recognized(tmp_path: Path, home: str, said: str) -> None:
    """What another start has left behind can be ended; another lakehouse's UI stays."""
    variables = os.environ | {"DAGSTER_HOME": str(tmp_path / home / "dagster")}
    command = [sys.executable, "-S", "-E", "-c", _LISTEN, "dagster_webserver"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            port = int(other.stdout.readline())
            with pytest.raises(DevRefused) as error:
                require_free_port(Settings.at(tmp_path), _address(port))
        finally:
            other.kill()
    assert error.value.message == f"Port {port} is taken by process {other.pid}, {said.format(tmp_path)}."


def test_a_program_that_the_system_does_not_name(tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another user, or on macOS."""

    def denied(**_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr("psutil.net_connections", denied)
    with pytest.raises(DevRefused, match=f"Port {taken} is taken by another program") as error:
        require_free_port(Settings.at(tmp_path), _address(taken))
    proposed = re.fullmatch(r"Take another port: PORT=(\d+) make dev\.", str(error.value.hint))
    assert proposed is not None and not answers(int(proposed[1]))


def test_what_is_no_port_is_refused() -> None:
    assert port_of("http://127.0.0.1:3100") == 3100
    for wrong in ("http", "0", "70000"):
        with pytest.raises(InvalidRequest, match="has no valid port"):
            port_of(f"http://127.0.0.1:{wrong}")


@pytest.mark.parametrize(("variables", "port"), [([], 3000), (["PORT=3105"], 3105)])
def test_make_takes_the_port_from_a_variable(variables: list[str], port: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PORT"}
    command = ["make", "--no-print-directory", "-n", "dev", *variables]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1].endswith(f"--port {port}")
