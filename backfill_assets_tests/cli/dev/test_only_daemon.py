"""A home has one daemon and a UI its port: a second ``backfill dev`` is refused, also while the first one starts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_assets.cli.dev import dagster_home as homes
from backfill_assets.cli.dev.dev import Location
from backfill_assets.cli.dev.only_daemon import HasDaemon, daemon_file, only_daemon, require_place
from backfill_assets.cli.running_dev import noted_dev
from backfill_assets.errors import InvalidRequest
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import answers, free_port
from backfill_assets_tests.cli.command import Backfill

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


def test_a_second_dev_is_refused_while_the_first_one_starts(backfill: Backfill) -> None:
    """The first one is noted only when its Spark runs: both would have had a daemon."""
    with only_daemon(Settings.at(backfill.home), "backfill dev"):
        refused = backfill("dev", free_port(), exit_code=1)
    first, hint = refused.output.splitlines()
    assert first == f"Error: `backfill dev` of {backfill.home} is under way, and has its daemon."
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


def test_one_that_has_not_said_its_name_keeps_others_of_its_home_away(tmp_path: Path) -> None:
    settings = Settings.at(tmp_path / "a")
    with only_daemon(settings, "backfill dev"), only_daemon(Settings.at(tmp_path / "b"), "backfill dev"):
        daemon_file(settings).write_text("")
        with pytest.raises(HasDaemon, match="Another command of"), only_daemon(settings, "backfill dev"):
            pass


def test_a_port_that_is_taken_is_said_before_anything_starts(backfill: Backfill, port: int) -> None:
    """Not Spark, which takes ten seconds, nor parts that end five times. A free one is no obstacle."""
    first, hint = backfill("dev", port, exit_code=1).output.splitlines()
    assert first == f"Error: Port {port} is taken by another program."
    proposed = re.fullmatch(r"  -> End it, or take another port: backfill dev (\d+)", hint)
    assert proposed is not None and not answers(int(proposed[1]))
    assert list(backfill.home.glob("*")) == []
    require_place(Settings.at(backfill.home), free_port())


def test_one_of_the_same_home_is_linked(tmp_path: Path) -> None:
    """On any port: two daemons of one lakehouse would get in each other's way."""
    settings, ui = Settings.at(tmp_path), "http://127.0.0.1:3105"
    with (
        noted_dev(settings, ui, "sc://127.0.0.1:1"),
        pytest.raises(HasDaemon, match=rf"runs already: {ui}/assets/start_here") as error,
    ):
        require_place(settings, free_port())
    assert f"kill {os.getpid()}" in str(error.value.hint)


def test_make_takes_the_port_from_a_variable() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PORT"}
    for variables, port in ((), 3000), (("PORT=3105",), 3105):
        command = ["make", "--no-print-directory", "-n", "dev", *variables]
        said = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        assert said.splitlines()[-1].endswith(f"backfill dev {port}")


def test_the_code_location_is_that_of_the_project_of_this_folder(tmp_path: Path) -> None:
    """As `backfill init` writes it and Dagster's own commands read it."""
    assert Location.of_project(ROOT) == ("backfill_assets.definitions", "backfill_assets")
    (tmp_path / "pyproject.toml").write_text('[tool.dagster]\nmodule_name = "shop.definitions"\n')
    assert Location.of_project(tmp_path) == ("shop.definitions", "shop.definitions")
    with pytest.raises(InvalidRequest, match="No code location is named") as error:
        Location.of_project(tmp_path / "elsewhere")
    assert "backfill init" in str(error.value.hint)


@pytest.mark.parametrize("name", ["one", 'my "data": sales #2'], ids=["a plain name", "one that YAML would cut"])
def test_each_home_has_a_dagster_of_its_own_and_the_repositorys_file_stays(name: str, tmp_path: Path) -> None:
    """Two that share a history would each show what only the other has. A link, as ``ln -s`` makes one, is replaced."""
    original = (homes.REPOSITORY / "dagster.yaml").read_text()
    folder = tmp_path / name / "dagster"
    folder.mkdir(parents=True)
    (folder / "dagster.yaml").symlink_to(homes.REPOSITORY / "dagster.yaml")
    assert homes.dagster_home(Settings.at(tmp_path / name)) == folder
    declared = yaml.safe_load((folder / "dagster.yaml").read_text())
    found = [each["base_dir"] for each in _configs(declared) if "base_dir" in each]
    assert found == [str(folder), str(folder), str(folder / "compute_logs")]
    assert (homes.REPOSITORY / "dagster.yaml").read_text() == original
    assert not (folder / "dagster.yaml").is_symlink()


def _configs(declared: object) -> Iterator[dict[str, Any]]:
    if isinstance(declared, dict):
        yield declared
        for each in declared.values():
            yield from _configs(each)
