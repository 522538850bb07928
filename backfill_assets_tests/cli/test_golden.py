"""What commands print is what is kept in golden_files/; ``make golden`` writes it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from backfill_assets_tests.cli.golden import FOLDER, golden_home, kept_pages, page

pytestmark = pytest.mark.protocol


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with golden_home() as found:
        yield found


@pytest.mark.parametrize("command", kept_pages())
def test_a_command_prints_what_is_kept(command: str, home: Path) -> None:
    """At 80 columns, on a pipe and as JSON."""
    kept = FOLDER / f"{command}.txt"
    assert kept.exists(), "make golden writes it"
    assert page(command, home) == kept.read_text(), f"if it is meant: make golden, and look at {kept.name}"


def test_thirteen_screens_are_kept_and_no_other() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(kept_pages())
