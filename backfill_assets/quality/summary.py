"""A day's quality in five lines: what the gates found in each dimension, as a table, a chart and numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from backfill_assets.model.declaration import Dimension, Metrics, RuleOutcome

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_BAR = 10
_SHORTEST_FAILURE = _BAR - 1
"""One broken rule of many still leaves a gap in the bar."""


@dataclass(frozen=True)
class DimensionQuality:
    """How many rules of one dimension there were, how many held, and the worst of what was observed."""

    dimension: Dimension
    passed: int
    rules: int
    worst: str = ""
    """The first broken rule with what was seen, errors before warnings; empty if all held or it is not known."""

    @property
    def share(self) -> float | None:
        """The share of rules that held, from 0 to 1; None without rules, because nothing was checked."""
        return self.passed / self.rules if self.rules else None


def summarize(outcomes: Iterable[RuleOutcome]) -> tuple[DimensionQuality, ...]:
    """All five dimensions in their order, those without a rule among them."""
    found = list(outcomes)
    return tuple(_of(name, [rule for rule in found if rule.dimension == name]) for name in DIMENSIONS)


def score(qualities: Iterable[DimensionQuality]) -> float | None:
    """The share of all rules that held, from 0 to 1; None if nothing was judged."""
    listed = list(qualities)
    rules = sum(each.rules for each in listed)
    return sum(each.passed for each in listed) / rules if rules else None


def chart(qualities: Iterable[DimensionQuality]) -> str:
    """A bar for each dimension in a Markdown code block: ``completeness ██████████ 4/4``."""
    width = max(len(name) for name in DIMENSIONS)
    return "\n".join(["```", *(f"{each.dimension:<{width}} {_bar(each)}" for each in qualities), "```"])


def to_metrics(outcomes: Iterable[RuleOutcome]) -> dict[str, int]:
    """Two numbers for each dimension with rules, to be kept with what is published: they are there when it is reused.

    The numbers of several deliveries of a raw day add up.
    """
    judged = [each for each in summarize(outcomes) if each.rules]
    return {
        name: count
        for each in judged
        for name, count in zip(_names(each.dimension), (each.passed, each.rules), strict=True)
    }


def from_record(metrics: Metrics) -> tuple[DimensionQuality, ...] | None:
    """The numbers that :func:`to_metrics` kept; None for a day that was published before there were any."""
    found = tuple(_from_metrics(metrics, name) for name in DIMENSIONS)
    return found if any(each.rules for each in found) else None


def _from_metrics(metrics: Metrics, dimension: Dimension) -> DimensionQuality:
    passed, rules = (_count(metrics, name) for name in _names(dimension))
    return DimensionQuality(dimension, passed, rules)


def _of(dimension: Dimension, outcomes: Sequence[RuleOutcome]) -> DimensionQuality:
    broken = sorted((rule for rule in outcomes if not rule.passed), key=lambda rule: not rule.holds_back)
    return DimensionQuality(
        dimension,
        passed=len(outcomes) - len(broken),
        rules=len(outcomes),
        worst=_in_words(broken[0]) if broken else "",
    )


def _in_words(rule: RuleOutcome) -> str:
    kind = "" if rule.holds_back else "warning: "
    return f"{kind}{rule.rule}: {rule.observed}, expected {rule.expected}"


def _bar(quality: DimensionQuality) -> str:
    if quality.share is None:
        return f"{'·' * _BAR} no rule"
    full = round(quality.share * _BAR)
    blocks = full if quality.passed == quality.rules else min(full, _SHORTEST_FAILURE)
    return f"{'█' * blocks}{'░' * (_BAR - blocks)} {quality.passed}/{quality.rules}"


def _names(dimension: Dimension) -> tuple[str, str]:
    return f"quality.{dimension}.passed", f"quality.{dimension}.rules"


def _count(metrics: Mapping[str, object], name: str) -> int:
    value = metrics.get(name)
    return int(str(value)) if value is not None else 0
