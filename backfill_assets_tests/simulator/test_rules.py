"""Each rule of the protocol, taken out, shows what ``rules.py`` says: by the same schedule, under the same name."""

from __future__ import annotations

import re

import pytest

from backfill_assets_tests.mutants.run import TREE
from backfill_assets_tests.simulator.judges.names import anomalies_in
from backfill_assets_tests.simulator.play import play_turns
from backfill_assets_tests.simulator.rules import PAGE, RULES, Rule, again, page, table
from backfill_assets_tests.simulator.schedule import Turn
from backfill_assets_tests.simulator.taken_out import Found

pytestmark = pytest.mark.protocol

SHORT = ("open-entry-locks-nothing", "reclaimed-files-published", "positions-not-compared")
"""The others are long: each is played in a process of its own."""
KEPT = [(rule, each) for rule in RULES for each in rule.found]


def _is_long(rule: Rule, found: Found) -> bool:
    return found.afterwards or rule.patch not in SHORT


def _named(rule: Rule, found: Found) -> str:
    return f"{rule.patch}-{'afterwards' if found.afterwards else 'at once'}"


def test_the_rules_are_those_of_the_architecture() -> None:
    text = (TREE / "docs/architecture.md").read_text()
    lines = text.partition("| rule | without it |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert [*dict.fromkeys(f"| {rule.text} | {rule.without} |" for rule in RULES)] == lines
    invariants = re.findall(r"^(\d+)\. ", text.partition("## Invariants")[2].partition("## Layers")[0], re.MULTILINE)
    assert {str(number) for rule in RULES for number in rule.carries} <= set(invariants)


def test_the_page_shows_what_is_kept() -> None:
    assert PAGE.read_text() == page(), "python -m backfill_assets_tests.simulator.rules --page"


def test_each_rule_shows_something() -> None:
    """By one of its patches; where another shows nothing, the test is told that does."""
    assert {rule.text for rule in RULES} == {rule.text for rule, _ in KEPT}
    told = "\n".join(table(RULES))
    assert all(f"| {each.anomaly} | {each.seed} |" in told for _, each in KEPT)
    assert told.count("none is kept: `") == sum(not rule.found for rule in RULES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        pytest.param(rule, each, id=_named(rule, each), marks=[pytest.mark.long] if _is_long(rule, each) else [])
        for rule, each in KEPT
    ],
)
def test_a_rule_that_is_taken_out_is_named(rule: Rule, kept: Found) -> None:
    (shown,) = again(rule, [kept])
    assert shown.anomaly == kept.anomaly and shown.said


@pytest.mark.parametrize(("rule", "kept"), [pytest.param(*each, id=_named(*each)) for each in KEPT])
def test_with_the_rule_the_same_schedule_shows_nothing(rule: Rule, kept: Found) -> None:
    played = play_turns(kept.seed, kept.actors, list(map(Turn.parse, kept.turns.split())))
    assert played.failure is None and anomalies_in(played.history) == {}
