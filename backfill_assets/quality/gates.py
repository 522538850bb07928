"""Gates: the verdicts on a staged day, from its metrics and those of the tables it was built from. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import singledispatch

from backfill_assets.model.declaration import DayFacts, DayRule, Dimension, Metrics, RuleOutcome, Severity, Table
from backfill_assets.model.placement import ON_ARRIVAL_DAY
from backfill_assets.model.rules import (
    ArrivedWithin,
    ContentIntact,
    ConvertedExactly,
    EverythingAccountedFor,
    EverythingPublished,
    FewDuplicates,
    FewNulls,
    FewRejected,
    FewUnknown,
    RatesFound,
    RecentReference,
    TotalAgrees,
    VolumeWithin,
)

DUPLICATES = "duplicates"
"""The metric of the rows that gave way to an equal version, measured on days where it matters."""
IDENTICAL = "duplicates_identical"
"""Those of them that gave way to a line of equal content."""


@dataclass(frozen=True)
class GateFinding:
    """What a rule observed, what it expected, and what a person does if they differ."""

    passed: bool
    observed: str
    expected: str
    next_step: str


def judge(table: Table, facts: DayFacts) -> tuple[RuleOutcome, ...]:
    """The outcome of every gate of ``table`` on one day: its contract, its key, then the rules it declares."""
    outcomes = [_outcome("contract_holds", "validity", _contract_holds(facts.own))]
    if table.key:
        outcomes.append(_outcome("key_is_unique", "uniqueness", _key_is_unique(table, facts.own)))
    outcomes += [_outcome(rule.name, rule.dimension, finding(rule, facts), rule.severity) for rule in table.rules]
    return tuple(outcomes)


def metrics_needed(table: Table) -> tuple[str, ...]:
    """The other tables whose metrics of the same day :func:`judge` looks at; companions of its step among them."""
    return tuple(dict.fromkeys(name for rule in table.rules for name in rule.tables))


@singledispatch
def finding(rule: DayRule, facts: DayFacts) -> GateFinding:
    """The judgement of one rule; a declared rule without one is a mistake in the code."""
    raise TypeError(f"No judgement is registered for the rule {type(rule).__name__}.")


@finding.register
def _(rule: ContentIntact, facts: DayFacts) -> GateFinding:
    carried, recomputed = _count(facts.own, "content_hash_sum"), _count(facts.own, "recomputed_hash_sum")
    return GateFinding(
        carried == recomputed,
        observed=f"content adds up to {recomputed}",
        expected=f"the carried hashes, {carried}",
        next_step="A value changed after it was hashed. Compare rows with the landed files; do not publish.",
    )


@finding.register
def _(rule: EverythingAccountedFor, facts: DayFacts) -> GateFinding:
    raw, quarantined = _of(facts, rule.raw), _of(facts, rule.quarantine)
    rows = {
        "published": _count(facts.own, "rows"),
        "quarantined": _count(quarantined, "rows"),
        "deduplicated": _count(facts.own, "deduplicated"),
    }
    hashes = (
        _count(facts.own, "recomputed_hash_sum")
        + _count(quarantined, "content_hash_sum")
        + _count(facts.own, "deduplicated_hash_sum")
    )
    return _accounting(raw, rows, hashes)


@finding.register
def _(rule: EverythingPublished, facts: DayFacts) -> GateFinding:
    raw, bronze, quarantined = (_of(facts, name) for name in (rule.raw, rule.bronze, rule.quarantine))
    rows = {
        "published": _count(facts.own, "rows"),
        "quarantined": _count(quarantined, "rows"),
        "deduplicated": _count(bronze, "deduplicated"),
        "superseded": _count(bronze, "superseded"),
    }
    hashes = (
        _count(facts.own, "recomputed_hash_sum")
        + _count(quarantined, "content_hash_sum")
        + _count(bronze, "deduplicated_hash_sum")
        + _count(bronze, "superseded_hash_sum")
    )
    return _accounting(raw, rows, hashes)


@finding.register
def _(rule: FewRejected, facts: DayFacts) -> GateFinding:
    received = _count(_of(facts, rule.raw), "received")
    rejected = _count(_of(facts, rule.quarantine), "rows")
    most = max(Decimal(rule.tolerated_rows), received * rule.at_most)
    return GateFinding(
        rejected <= most,
        observed=f"{rejected} of {received} rows quarantined{_example(_of(facts, rule.quarantine), 'rejected')}",
        expected=f"at most {int(most)}",
        next_step=_unbelieved(rule, facts)
        + "Ask the source to land corrected rows as a new file, then build this day again.",
    )


def _unbelieved(rule: FewRejected, facts: DayFacts) -> str:
    """A hint on rows that are on their arrival day: they may be right, and the declared range of days wrong."""
    raw = _of(facts, rule.raw)
    if not raw.get(ON_ARRIVAL_DAY):
        return ""
    return (
        f"{raw[ON_ARRIVAL_DAY]} of them are on the day they arrived{_example(raw, ON_ARRIVAL_DAY)}: before "
        "`earliest_day` of the source, which is `first_day` of the dataset unless it is declared, or more than "
        f"`days_ahead` after they arrived. If they are right, declare it and run {rule.raw} again. If not: "
    )


@finding.register
def _(rule: FewDuplicates, facts: DayFacts) -> GateFinding:
    received, deduplicated = _count(_of(facts, rule.raw), "received"), _count(facts.own, "deduplicated")
    most = rule.most(received)
    if looks_closer(rule, facts):
        duplicates, identical = _count(facts.own, DUPLICATES), _count(facts.own, IDENTICAL)
        observed = f"{duplicates} of {received} rows give way to one of equal key and version"
        found = f"{observed}, {identical} of them to an identical line{_example(facts.own, DUPLICATES)}"
    else:
        duplicates, found = deduplicated, f"{deduplicated} of {received} rows deduplicated, newer versions counted in"
    return GateFinding(
        duplicates <= most,
        observed=found,
        expected=f"at most {most}",
        next_step=(
            "Are these lines rows of their own? Then the key is none: add the columns that distinguish them, or "
            "`occurrence` for identical lines. Were they delivered twice? Then declare how many are normal: "
            f"tolerated_duplicates or most_duplicates of landed_steps for {rule.source.name}."
        ),
    )


def looks_closer(rule: FewDuplicates, facts: DayFacts) -> bool:
    """Whether enough rows were deduplicated to count those that gave way to an equal version."""
    return _count(facts.own, "deduplicated") > rule.most(_count(_of(facts, rule.raw), "received"))


@finding.register
def _(rule: RatesFound, facts: DayFacts) -> GateFinding:
    without = _count(facts.own, "without_rate")
    currencies = facts.own.get("without_rate_example") or ""
    return GateFinding(
        without == 0,
        observed=f"{without} lines without a rate" + (f" ({currencies})" if currencies else ""),
        expected=f"a rate published within {rule.within_days} days for every line",
        next_step="Land and build the missing days of the exchange rates, then build this day again.",
    )


@finding.register
def _(rule: ConvertedExactly, facts: DayFacts) -> GateFinding:
    wrong = _count(facts.own, f"misconverted_{rule.converted}")
    return GateFinding(
        wrong == 0,
        observed=f"{wrong} rows whose {rule.converted} is not {rule.amount} divided by {rule.rate}",
        expected="none",
        next_step="The transform shows another rate than it used, or rounds twice: fix it in a new version.",
    )


@finding.register
def _(rule: FewNulls, facts: DayFacts) -> GateFinding:
    nulls, rows = _count(facts.own, f"nulls_{rule.column}"), _count(facts.own, "rows")
    return GateFinding(
        nulls <= rows * rule.at_most,
        observed=f"{nulls} of {rows} rows without {rule.column}",
        expected=f"at most {rule.at_most:%}",
        next_step=f"Find out why {rule.column} is missing upstream, then build this day again.",
    )


@finding.register
def _(rule: FewUnknown, facts: DayFacts) -> GateFinding:
    unknown, lines = _count(facts.own, f"unknown_{rule.column}"), _count(facts.own, f"lines_by_{rule.column}")
    most = max(Decimal(rule.tolerated_lines), lines * rule.baseline * rule.times)
    return GateFinding(
        unknown <= most,
        observed=f"{unknown} of {lines} lines have an unknown {rule.column}",
        expected=f"at most {int(most)}: {rule.times} times the usual {rule.baseline:.2%}",
        next_step="Land and build the reference data of that time (the whole catalogue), then build this day again.",
    )


@finding.register
def _(rule: TotalAgrees, facts: DayFacts) -> GateFinding:
    fact_metric = "rows" if rule.fact_total == "rows" else f"total_{rule.fact_total}"
    own, of_fact = _number(facts.own, f"total_{rule.column}"), _of(facts, rule.fact).get(fact_metric)
    if of_fact is None and _count(_of(facts, rule.fact), "rows"):
        return GateFinding(
            False,
            observed=f"{rule.column} adds up to {own}",
            expected=f"the {rule.fact_total} of {rule.fact}, which is unknown: it was not measured for these days",
            next_step=f"Build these days of {rule.fact} again with --force, which measures it, then this day again.",
        )
    fact = Decimal(of_fact or 0)
    return GateFinding(
        own == fact,
        observed=f"{rule.column} adds up to {own}",
        expected=f"{fact}, the {rule.fact_total} of {rule.fact}",
        next_step=f"Build this day again; if they still differ, {rule.fact} changed meanwhile or the sum loses rows.",
    )


@finding.register
def _(rule: VolumeWithin, facts: DayFacts) -> GateFinding:
    rows = _count(facts.own, "rows")
    upstream = _count(_of(facts, rule.made_of), "rows") if rule.made_of else None
    least = 0 if upstream is None else min(upstream, 1)
    most = rule.at_most if upstream is None else min(upstream, rule.at_most)
    return GateFinding(
        least <= rows <= most,
        observed=f"{rows} rows",
        expected=f"{least} to {most} rows" + (f" from {upstream} of {rule.made_of}" if rule.made_of else ""),
        next_step="Too few: look for rows lost upstream. Too many: look for a delivery that landed twice.",
    )


@finding.register
def _(rule: ArrivedWithin, facts: DayFacts) -> GateFinding:
    late, arrived = _count(facts.own, "late_rows"), _count(facts.own, "arrived_rows")
    most = max(Decimal(rule.tolerated_rows), arrived * rule.at_most)
    return GateFinding(
        late <= most,
        observed=f"{late} of {arrived} rows arrived more than {rule.days} day(s) after their day",
        expected=f"at most {int(most)}",
        next_step="Ask the source why it delivers late. Who read this day before saw it without these rows.",
    )


@finding.register
def _(rule: RecentReference, facts: DayFacts) -> GateFinding:
    outdated = _count(facts.own, f"outdated_{rule.column}")
    return GateFinding(
        outdated == 0,
        observed=f"{outdated} rows with a {rule.column} more than {rule.within_days} days before their day",
        expected="none",
        next_step="Look for a missing delivery of the reference data; land and build it, then build this day again.",
    )


def _contract_holds(own: Metrics) -> GateFinding:
    violating = _count(own, "violating")
    example = own.get("violating_example") or ""
    return GateFinding(
        violating == 0,
        observed=f"{violating} rows break it" + (f", for example {example}" if example else ""),
        expected="every row fulfils the contract",
        next_step="The transform lets through what the contract forbids: fix it in a new version.",
    )


def _key_is_unique(table: Table, own: Metrics) -> GateFinding:
    rows, keys = _count(own, "rows"), _count(own, "keys")
    return GateFinding(
        rows == keys,
        observed=f"{keys} different {', '.join(table.key)} in {rows} rows",
        expected="as many as rows",
        next_step="The transform lets a key through twice: fix it in a new version.",
    )


def _accounting(raw: Metrics, rows: dict[str, int], hashes: int) -> GateFinding:
    received, received_hashes = _count(raw, "received"), _count(raw, "content_hash_sum")
    equation = " + ".join(f"{count} {kind}" for kind, count in rows.items())
    return GateFinding(
        sum(rows.values()) == received and hashes == received_hashes,
        observed=f"{equation} = {sum(rows.values())}, content {hashes}",
        expected=f"{received} received, content {received_hashes}",
        next_step=(
            "Equal counts but other content: values changed on the way. Other counts: rows were lost, doubled, or "
            "arrived meanwhile; build this day again, and compare it with raw if it still differs."
        ),
    )


def _outcome(name: str, dimension: Dimension, found: GateFinding, severity: Severity = "error") -> RuleOutcome:
    next_step = "" if found.passed else found.next_step
    return RuleOutcome(name, dimension, found.passed, found.observed, found.expected, next_step, severity)


def _of(facts: DayFacts, table: str) -> Metrics:
    found = facts.companions.get(table, facts.upstream.get(table))
    if found is None:
        raise LookupError(f"The metrics of {table} are not among the facts of the day.")
    return found


def _example(metrics: Metrics, of: str) -> str:
    found = metrics.get(f"{of}_example")
    return f", for example {found}" if found else ""


def _number(metrics: Metrics, name: str) -> Decimal:
    value = metrics[name]
    if value is None:
        raise LookupError(f"The metric {name} was not measured.")
    return Decimal(value)


def _count(metrics: Metrics, name: str) -> int:
    """Counts and hash sums; as int, because a sum of hashes has more digits than decimal arithmetic keeps."""
    return int(_number(metrics, name))
