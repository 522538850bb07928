"""The guide to a dataset of one's own shows the code that is there, whole pieces of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "your-own-dataset.md"
SHOWN = (
    "backfill_assets/datasets/sea_temperatures.py",
    "backfill_assets/datasets/registry.py",
    "backfill_assets_tests/stories/test_sea_temperatures.py",
)
EXCERPTS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


@pytest.mark.parametrize("excerpt", EXCERPTS, ids=lambda excerpt: excerpt.strip().splitlines()[0])
def test_every_excerpt_stands_in_a_file(excerpt: str) -> None:
    """Whoever copies from the page gets what works."""
    assert any(excerpt in (ROOT / path).read_text() for path in SHOWN)


def test_nothing_of_the_declaration_is_left_out() -> None:
    """All of the file but its imports and limits is explained: nothing has to be guessed."""
    source = (ROOT / SHOWN[0]).read_text()
    declared = source[source.index("SEA_TEMPERATURES = Source(") :]
    for excerpt in EXCERPTS:
        declared = declared.replace(excerpt, "")
    assert declared.strip() == ""
    assert all(path in GUIDE.read_text() for path in SHOWN)
