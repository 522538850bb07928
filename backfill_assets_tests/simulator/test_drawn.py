"""Mutants that nobody chose are drawn by a seed, and told with the seeds that it took to find them."""

from __future__ import annotations

import re

import pytest

from backfill_assets_tests.mutants.run import HERE
from backfill_assets_tests.simulator.drawn import ROOMS, drawn, line
from backfill_assets_tests.simulator.taken_out import Found, search

pytestmark = pytest.mark.protocol


def test_mutants_are_drawn_from_the_rooms_that_decide_what_is_published() -> None:
    names = drawn(1, 30)
    assert names == drawn(1, 30) and names != drawn(2, 30) and len(set(names)) == 30
    for name in names:
        touched = re.findall(r"^\+\+\+ b/backfill_assets/(\w+)/", (HERE / f"{name}.patch").read_text(), re.MULTILINE)
        assert {*touched} & {*ROOMS}, name


def test_a_mutant_is_told_with_the_seeds_that_it_took() -> None:
    name, seeds = drawn(1, 1)[0], range(11, 111)
    assert line(name, None, seeds).endswith("| not within 100 | |")
    assert line(name, Found("lost rows", 13, "", 0), seeds).endswith("| 3 | lost rows |")


def test_the_first_seed_that_shows_something_is_found_without_a_shorter_history() -> None:
    found = search("abort-without-fences", range(31, 32), afterwards=False, steps=400, plays=0)
    assert found is not None and found.seed == 31
