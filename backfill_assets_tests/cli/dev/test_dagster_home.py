"""Each lakehouse has a Dagster instance of its own, from the repository's configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from backfill_assets.cli.dev import dagster_home as homes
from backfill_assets.settings import Settings


def test_each_home_has_a_dagster_of_its_own(tmp_path: Path) -> None:
    """Two lakehouses that share a history would each show what only the other has."""
    for name in ("one", "two"):
        folder = homes.dagster_home(Settings.at(tmp_path / name))
        assert folder == tmp_path / name / "dagster"
        assert _folders(folder) == [str(folder), str(folder), str(folder / "compute_logs")]
        assert ".data/dagster" not in (folder / "dagster.yaml").read_text()


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    """YAML would end a bare text at a number sign, and take a colon for a key."""
    folder = homes.dagster_home(Settings.at(tmp_path / 'my "data": sales #2'))
    assert _folders(folder) == [str(folder), str(folder), str(folder / "compute_logs")]


def _folders(home: Path) -> list[str]:
    """Where an instance puts what it keeps."""
    declared = yaml.safe_load((home / "dagster.yaml").read_text())
    return [each["base_dir"] for each in _configs(declared) if "base_dir" in each]


def _configs(declared: object) -> Iterator[dict[str, Any]]:
    if isinstance(declared, dict):
        yield declared
        for each in declared.values():
            yield from _configs(each)


def test_the_repositorys_own_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    """A link to it, as ``ln -s`` makes one, is replaced by a file."""
    original = (homes.REPOSITORY / "dagster.yaml").read_text()
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").symlink_to(homes.REPOSITORY / "dagster.yaml")
    homes.dagster_home(Settings.at(tmp_path))
    assert (homes.REPOSITORY / "dagster.yaml").read_text() == original
    assert not (tmp_path / "dagster" / "dagster.yaml").is_symlink()
