"""Each way of the guide from an empty folder and the wheel, small; ``benchmarks.first_monday`` is large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets_tests.wheel.first_monday import SMALL, WAYS, Walk, a_topic, lines_of, walked
from backfill_assets_tests.wheel.project import environment_with_the_wheel
from benchmarks.first_monday import topic_of

if TYPE_CHECKING:
    from backfill_assets_tests.stream.broker import Broker


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with_the_wheel(tmp_path_factory.mktemp("fresh"))


@pytest.mark.long
@pytest.mark.story
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_a_way_from_an_empty_folder_to_right_rows(way: Callable[[Walk], None], commands: Path, tmp_path: Path) -> None:
    walk = walked(tmp_path / "shop", commands, SMALL, way)
    assert walk.commands <= 12 and walk.lines <= 37, "what the guide says"


@pytest.mark.long
@pytest.mark.story
@pytest.mark.timeout(1800)
def test_a_topic(kafka_broker: Broker, commands: Path, tmp_path: Path) -> None:
    walked(tmp_path / "shop", commands, SMALL, lambda walk: a_topic(walk, topic_of(kafka_broker)))


def test_lines_are_those_that_say_something() -> None:
    """No comment, no import, no docstring of the module."""
    page = (
        '"""A page."""',
        "",
        "from a import b",
        "# why",
        "X = 1",
        "def f() -> int:",
        '    """It."""',
        "    return X",
    )
    assert lines_of("\n".join(page)) == 4
