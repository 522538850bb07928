"""Each lakehouse has a Dagster instance of its own, from the repository's configuration."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.cli.demo import dagster_home as homes
from backfill_assets.settings import Settings


def test_each_home_has_a_dagster_of_its_own(tmp_path: Path) -> None:
    """Two lakehouses that share a history would each show what only the other has."""
    for name in ("one", "two"):
        folder = homes.dagster_home(Settings.at(tmp_path / name))
        assert folder == tmp_path / name / "dagster"
        text = (folder / "dagster.yaml").read_text()
        assert f"base_dir: {folder}\n" in text
        assert ".data/dagster" not in text


def test_the_repositorys_own_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    """A link to it, as ``ln -s`` makes one, is replaced by a file."""
    original = (homes.REPOSITORY / "dagster.yaml").read_text()
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").symlink_to(homes.REPOSITORY / "dagster.yaml")
    homes.dagster_home(Settings.at(tmp_path))
    assert (homes.REPOSITORY / "dagster.yaml").read_text() == original
    assert not (tmp_path / "dagster" / "dagster.yaml").is_symlink()
