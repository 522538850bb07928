"""A home has one daemon and a UI its port: a second ``backfill dev`` is refused, also while the first one starts."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backfill_assets.cli.dev.dev import Location
from backfill_assets.cli.dev.only_daemon import HasDaemon, daemon_file, only_daemon, require_place
from backfill_assets.cli.running_dev import noted_dev
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import answers, free_port

ROOT = Path(__file__).parents[3]
_HOLD = """
import sys, time
from pathlib import Path
from backfill_assets.cli.dev.only_daemon import only_daemon
from backfill_assets.settings import Settings
with only_daemon(Settings.at(Path(sys.argv[1])), "backfill dev"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_dev_is_refused_while_the_first_one_starts(tmp_path: Path) -> None:
    """The first one is noted only when its Spark runs: both would have had a daemon."""
    with only_daemon(Settings.at(tmp_path), "backfill dev"):
        ended = subprocess.run(
            [sys.executable, "-m", "backfill_assets.cli", "dev", "--port", str(free_port())],
            cwd=ROOT,
            env=os.environ | {"BACKFILL_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, hint = ended.stderr.splitlines()
    assert first == f"Error: `backfill dev` of {tmp_path} is under way, and has its daemon."
    assert hint.endswith(f"Ctrl-C where it runs, or kill {os.getpid()}.")


def test_one_that_was_killed_keeps_it_for_no_one(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None and other.stdout.readline() == "held\n"
            with pytest.raises(HasDaemon) as error, only_daemon(settings, "backfill demo"):
                pass
        finally:
            other.kill()
    assert f"kill {other.pid}" in str(error.value.hint)
    with only_daemon(settings, "backfill demo"):
        assert f'"pid": {os.getpid()}' in daemon_file(settings).read_text()


def test_one_that_has_not_said_its_name_yet(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path)
    with only_daemon(settings, "backfill dev"):
        daemon_file(settings).write_text("")
        with (
            pytest.raises(HasDaemon, match="Another command of"),
            only_daemon(settings, "backfill dev"),
        ):
            pass


def test_homes_do_not_meet(tmp_path: Path) -> None:
    with (
        only_daemon(Settings.at(tmp_path / "a"), "backfill dev"),
        only_daemon(Settings.at(tmp_path / "b"), "backfill dev"),
    ):
        pass


@pytest.fixture
def taken() -> Iterator[int]:
    """The port at which this process listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening.getsockname()[1]


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path, taken: int) -> None:
    """Not Spark, which takes ten seconds, nor parts that end five times."""
    ended = subprocess.run(
        [sys.executable, "-m", "backfill_assets.cli", "dev", "--port", str(taken)],
        cwd=ROOT,
        env=os.environ | {"BACKFILL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, hint = ended.stderr.splitlines()
    assert first == f"Error: Port {taken} is taken by another program."
    proposed = re.fullmatch(r"  -> End it, or take another port: backfill dev --port (\d+)", hint)
    assert proposed is not None and not answers(int(proposed[1]))
    assert list(tmp_path.iterdir()) == []


def test_a_free_port_is_no_obstacle(tmp_path: Path) -> None:
    require_place(Settings.at(tmp_path), free_port())


def test_one_of_the_same_home_is_linked(tmp_path: Path) -> None:
    """On any port: two daemons of one lakehouse would get in each other's way."""
    settings, ui = Settings.at(tmp_path), "http://127.0.0.1:3105"
    with (
        noted_dev(settings, ui, "sc://127.0.0.1:1"),
        pytest.raises(HasDaemon, match=rf"runs already: {ui}/assets/start_here") as error,
    ):
        require_place(settings, free_port())
    assert f"kill {os.getpid()}" in str(error.value.hint)


@pytest.mark.parametrize(("variables", "port"), [([], 3000), (["PORT=3105"], 3105)])
def test_make_takes_the_port_from_a_variable(variables: list[str], port: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PORT"}
    command = ["make", "--no-print-directory", "-n", "dev", *variables]
    said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1].endswith(f"backfill dev --port {port}")


def test_the_code_location_is_that_of_the_project_of_this_folder(tmp_path: Path) -> None:
    """As `backfill init` writes it and Dagster's own commands read it."""
    assert Location.of_project(ROOT) == ("backfill_assets.definitions", "backfill_assets")
    (tmp_path / "pyproject.toml").write_text('[tool.dagster]\nmodule_name = "shop.definitions"\n')
    assert Location.of_project(tmp_path) == ("shop.definitions", "shop.definitions")
    with pytest.raises(InvalidRequest, match="No code location is named") as error:
        Location.of_project(tmp_path / "elsewhere")
    assert "backfill init" in str(error.value.hint)
