"""Each lakehouse has a Dagster instance of its own, from the repository's configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_assets.cli.dev import dagster_home as homes
from backfill_assets.settings import Settings


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
