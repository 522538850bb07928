"""What ``init`` writes is tested by what ``init`` writes, with nothing of the repository: the first thing one types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from backfill_assets.settings import cache_folder
from backfill_assets_tests.wheel.build import build_wheel

pytestmark = pytest.mark.story


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel puts into an environment, in a folder of its own."""
    folder, wheel = tmp_path_factory.mktemp("site"), build_wheel(tmp_path_factory.mktemp("wheel"))
    with ZipFile(wheel) as files:
        for each in files.infolist():
            placed = Path(files.extract(each, folder))
            placed.chmod(placed.stat().st_mode | each.external_attr >> 16)  # as an installer does: scripts can be run
    return folder


def typed(words: list[str], folder: Path, installed: Path, exit_code: int = 0) -> str:
    """By this Python, which has what the package depends on, and takes the package itself from the wheel."""
    kept = {name: text for name, text in os.environ.items() if name in ("JAVA_HOME", "PATH", "SPARK_SUBMIT_OPTS")}
    variables = {"PYTHONPATH": str(installed), "HOME": str(folder), "BACKFILL_JARS": str(cache_folder() / "jars")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=kept | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done.stdout


def test_the_test_of_a_new_project_passes_right_after_init(installed: Path, tmp_path: Path) -> None:
    """It lands lines, types a command, and reads published rows; pytest finds the fixture by itself."""
    typed(["-m", "backfill_assets.cli", "init", "shop"], tmp_path, installed)
    where = typed(["-c", "import backfill_assets; print(backfill_assets.__file__)"], tmp_path / "shop", installed)
    assert where.startswith(str(installed))
    seen = typed(["-m", "pytest", "-p", "no:cacheprovider"], tmp_path / "shop", installed)
    assert "3 passed" in seen
    assert not (tmp_path / "shop" / ".data").exists(), "a test leaves the lakehouse of the project alone"


@pytest.mark.parametrize(
    ("which", "passed"),
    [
        pytest.param(["-k", "declared or loads"], 1, id="without Spark"),
        pytest.param([], 2, id="all", marks=pytest.mark.long),
    ],
)
def test_a_dataset_that_is_declared_wrong_lets_the_others_be_built(
    installed: Path, tmp_path: Path, which: list[str], passed: int
) -> None:
    """Dagster loads the other one, whose test builds its day; the one that asks for all says what is wrong."""
    typed(["-m", "backfill_assets.cli", "init", "shop"], tmp_path, installed)
    shop = tmp_path / "shop"
    typed(["-m", "backfill_assets.cli", "dataset", "new", "ferries"], shop, installed)
    declared = shop / "shop" / "datasets" / "ferries.py"
    declared.write_text(declared.read_text().replace("T.TimestampType", "T.TimstampType"))
    asked = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=line", *which]
    seen = typed(asked, shop, installed, exit_code=1)
    assert f"1 failed, {passed} passed" in seen
    assert "The dataset ferries is left out: Entry is declared wrong in 2 places:" in seen
