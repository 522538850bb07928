"""A joined key is taken apart again into just the parts that it was joined of."""

from __future__ import annotations

import pytest

from backfill_assets.model.canonical import parts_of_key


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("10-2", ["10", "2"]),
        ("10-1-2", ["10", "1-2"]),
        ("10\\-1-2", ["10-1", "2"]),
        ("10\\\\-2", ["10\\", "2"]),
        ("10-\\-2", ["10", "\\-2"]),
        ("10\\-2", None),
        ("10", None),
    ],
)
def test_two_parts(key: str, parts: list[str] | None) -> None:
    assert parts_of_key(key, 2) == parts


def test_as_many_parts_as_there_are_fields() -> None:
    """The last one is all that is left."""
    assert parts_of_key("a\\-b-c-d-e", 3) == ["a-b", "c", "d-e"]
    assert parts_of_key("a-b", 3) is None
    assert parts_of_key("a-b", 1) == ["a-b"]
