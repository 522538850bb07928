from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Literal

from backfill_assets.model.declaration import (
    CORRECTED,
    DUPLICATES,
    EXAMPLE,
    IDENTICAL,
    OWN,
    Aggregates,
    DayFacts,
    DayRule,
    GateFinding,
    Metrics,
    Severity,
    Source,
)
from backfill_assets.model.deletion import DELETED, DELETED_HASHES
from backfill_assets.model.lateness import LATE_ROWS, WAITING
from backfill_assets.model.measure import ContentHash, exact_sum
from backfill_assets.model.placement import ON_ARRIVAL_DAY
from backfill_assets.text import format_count

if TYPE_CHECKING:
    import ibis.expr.types as ir

_RECEIVED = ("received", "content_hash_sum")
_DEDUPLICATED = ("deduplicated", "deduplicated_hash_sum")
_SUPERSEDED = ("superseded", "superseded_hash_sum")

# ------------------------------------------------------------------ what was received is there


@dataclass(frozen=True)
class ContentIntact(DayRule):
    """The content hashes that rows carry are those of their content."""

    source: Source
    form: Literal["text", "values"]
    name_format = "content_intact"
    dimension = "consistency"
    judged_afresh = True

    @property
    def columns(self) -> tuple[str, ...]:
        landed = () if self.form == "values" else ("unparsed_line", "arrival_day")
        return (*self.source.columns, "content_hash", *landed)

    def measure(self) -> Aggregates:
        """Markers and deletions have no arrival day."""
        recomputed = ContentHash(self.source, self.form)
        if self.form == "values":
            return {"content_hash_sum": lambda rows: exact_sum(rows.content_hash), "recomputed_hash_sum": recomputed}
        return {
            "received": lambda rows: rows.arrival_day.count(),
            "content_hash_sum": lambda rows: exact_sum(rows.content_hash, rows.arrival_day.notnull()),
            "recomputed_hash_sum": recomputed,
        }

    def judge(self, facts: DayFacts) -> GateFinding:
        carried, recomputed = facts.count("content_hash_sum"), facts.count("recomputed_hash_sum")
        return GateFinding(
            carried == recomputed,
            observed=f"content adds up to {recomputed}",
            expected=f"the carried hashes, {carried}",
            next_step="A value changed after it was hashed. Compare rows with the landed files; do not publish.",
        )


@dataclass(frozen=True)
class EverythingAccountedFor(DayRule):
    """Raw equals winners, quarantined, deduplicated and deleted rows, by count and by the sum of content hashes."""

    raw: str
    quarantine: str
    name_format = "everything_accounted_for"
    columns = ("content_hash", "deduplicated_rows", "deduplicated_hash", "superseded_by_day")
    dimension = "completeness"
    steady_formats = ("deduplicated", "superseded")
    judged_afresh = True

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return _needs((OWN, "recomputed_hash_sum"), (self.raw, *_RECEIVED), (self.quarantine, "content_hash_sum"))

    def measure(self) -> Aggregates:
        return {
            "deduplicated": lambda rows: exact_sum(rows.deduplicated_rows),
            "deduplicated_hash_sum": lambda rows: exact_sum(rows.deduplicated_hash),
            "superseded": lambda rows: rows.superseded_by_day.count(),
            "superseded_hash_sum": lambda rows: exact_sum(rows.content_hash, rows.superseded_by_day.notnull()),
        }

    def judge(self, facts: DayFacts) -> GateFinding:
        return _accounting(
            facts,
            self.raw,
            published=(OWN, "rows", "recomputed_hash_sum"),
            quarantined=(self.quarantine, "rows", "content_hash_sum"),
            deduplicated=(OWN, *_DEDUPLICATED),
        )


@dataclass(frozen=True)
class EverythingPublished(DayRule):
    """Raw equals fact, quarantined, deduplicated, superseded and deleted rows, by count and by the sum of hashes."""

    source: Source
    raw: str
    bronze: str
    quarantine: str
    name_format = "everything_published"
    dimension = "completeness"
    judged_afresh = True

    @property
    def columns(self) -> tuple[str, ...]:
        return self.source.columns

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        winners = (self.bronze, *_DEDUPLICATED, *_SUPERSEDED)
        return _needs((self.raw, *_RECEIVED), winners, (self.quarantine, "content_hash_sum"))

    def measure(self) -> Aggregates:
        return {"recomputed_hash_sum": ContentHash(self.source, "values")}

    def judge(self, facts: DayFacts) -> GateFinding:
        return _accounting(
            facts,
            self.raw,
            published=(OWN, "rows", "recomputed_hash_sum"),
            quarantined=(self.quarantine, "rows", "content_hash_sum"),
            deduplicated=(self.bronze, *_DEDUPLICATED),
            superseded=(self.bronze, *_SUPERSEDED),
        )


def _accounting(facts: DayFacts, raw: str, **parts: tuple[str, str, str]) -> GateFinding:
    rows = {kind: facts.count(metric, table) for kind, (table, metric, _) in parts.items()}
    hashes = sum(facts.count(metric, table) for table, _, metric in parts.values())
    deleted, deleted_hashes = (int(facts.of(raw).get(metric) or 0) for metric in (DELETED, DELETED_HASHES))
    waiting, waiting_hashes = (int(facts.of(raw).get(metric) or 0) for metric in WAITING)
    rows |= {kind: count for kind, count in (("deleted", deleted), ("waiting", waiting)) if count}
    hashes += deleted_hashes + waiting_hashes
    received, received_hashes = (facts.count(metric, raw) for metric in _RECEIVED)
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


@dataclass(frozen=True)
class TotalAgrees(DayRule):
    """The total of a column equals a total of the table it is made from, to the last digit."""

    column: str
    fact: str
    fact_total: str
    name_format = "total_agrees_{column}"
    dimension = "consistency"
    judged_afresh = True

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        fact = () if self.fact_total == "rows" else (f"total_{self.fact_total}",)
        return _needs((OWN, f"total_{self.column}"), (self.fact, *fact))

    def judge(self, facts: DayFacts) -> GateFinding:
        metric = "rows" if self.fact_total == "rows" else f"total_{self.fact_total}"
        own, of_fact = facts.number(f"total_{self.column}"), facts.of(self.fact).get(metric)
        observed, asked = f"{self.column} adds up to {own}", f"the {self.fact_total} of {self.fact}"
        if of_fact is None and facts.count("rows", self.fact):
            unknown = f"{asked}, which is unknown: it was not measured for these days"
            measuring = f"Build these days of {self.fact} again with --force, which measures it, then this day again."
            return GateFinding(False, observed, unknown, measuring)
        fact = Decimal(of_fact or 0)
        again = f"Build this day again; if they still differ, {self.fact} changed meanwhile or the sum loses rows."
        return GateFinding(own == fact, observed, f"{fact}, {asked}", again)


# ------------------------------------------------------------------ how many rows there are


@dataclass(frozen=True)
class VolumeWithin(DayRule):
    """The number of rows lies in a wide band: a day without sales passes, a day that was lost or doubled does not."""

    at_most: int
    made_of: str | None = None
    """A table with rows gives at least one here, and never more than it has."""
    name_format = "volume_within"
    dimension = "completeness"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return {self.made_of: ()} if self.made_of else {}

    def judge(self, facts: DayFacts) -> GateFinding:
        rows, least, most, origin = facts.count("rows"), 0, self.at_most, ""
        if self.made_of:
            upstream = facts.count("rows", self.made_of)
            least, most, origin = min(upstream, 1), min(upstream, most), f" from {upstream} of {self.made_of}"
        return GateFinding(
            least <= rows <= most,
            observed=f"{rows} rows",
            expected=f"{least} to {most} rows{origin}",
            next_step="Too few: look for rows lost upstream. Too many: look for a delivery that landed twice.",
        )


@dataclass(frozen=True)
class FewOfReceived(DayRule):
    """No more than a share of what was received goes wrong; a few rows are always tolerated."""

    source: Source
    raw: str
    quarantine: str
    at_most: Decimal
    tolerated_rows: int = 0
    nothing_found: ClassVar[Metrics]
    """What ``judge/second_look.py`` counts then."""

    @abstractmethod
    def looks_closer(self, facts: DayFacts) -> bool:
        """Whether to count the wrong rows in raw."""

    def most(self, facts: DayFacts) -> int:
        return _most(facts.count("received", self.raw), self.at_most, self.tolerated_rows)


@dataclass(frozen=True)
class FewRejected(FewOfReceived):
    """No more than a share of what was received is quarantined; a few rows are always tolerated.

    A rejected row that came again, sound, is missing from nothing.
    """

    name_format = "few_rejected"
    nothing_found: ClassVar[Metrics] = {CORRECTED: 0}
    dimension = "validity"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return _needs((self.raw, "received"), (self.quarantine,))

    def looks_closer(self, facts: DayFacts) -> bool:
        return self._rejected(facts) > self.most(facts)

    def _rejected(self, facts: DayFacts) -> int:
        """Late rows have a limit of their own."""
        return facts.count("rows", self.quarantine) - int(facts.of(self.quarantine).get(LATE_ROWS) or 0)

    def judge(self, facts: DayFacts) -> GateFinding:
        received, rejected = facts.count("received", self.raw), self._rejected(facts)
        corrected, most = int(facts.own.get(CORRECTED) or 0), self.most(facts)
        again = f", {corrected} of them came again, sound" if corrected else ""
        return GateFinding(
            rejected - corrected <= most,
            observed=f"{rejected} of {received} rows quarantined{facts.example('rejected', self.quarantine)}{again}",
            expected=f"at most {most}",
            next_step=(
                f"{self._unbelieved(facts)}Ask the source to send corrected rows, in a new file or as events, then "
                "build this day again. To publish the day without these rows: backfill raw release "
                f'{self.quarantine} DAY "REASON"'
            ),
        )

    def _unbelieved(self, facts: DayFacts) -> str:
        """The rows may be right, and the declared days wrong."""
        rows = facts.of(self.raw).get(ON_ARRIVAL_DAY)
        if not rows:
            return ""
        return (
            f"{rows} of them are on the day they arrived{facts.example(ON_ARRIVAL_DAY, self.raw)}: before "
            "earliest_day of the source, which is first_day of the dataset unless it is declared, or more than "
            "days_ahead after they arrived. If they are right, declare so, then: "
            f"backfill raw refresh {self.raw} DAYS. If not: "
        )


@dataclass(frozen=True)
class FewDuplicates(FewOfReceived):
    """No more than a share of the rows give way to one of equal key and version; a few are always tolerated.

    Rows that give way to one of their version were delivered twice, or the key is none and rows are lost.
    """

    name_format = "few_duplicates"
    nothing_found: ClassVar[Metrics] = {DUPLICATES: 0, IDENTICAL: 0, f"{DUPLICATES}{EXAMPLE}": ""}
    dimension = "uniqueness"

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        return _needs((OWN, "deduplicated"), (self.raw, "received"), (self.quarantine,))

    def looks_closer(self, facts: DayFacts) -> bool:
        """Bronze has no versions: ``judge/second_look.py`` counts."""
        return facts.count("deduplicated") > self.most(facts)

    def judge(self, facts: DayFacts) -> GateFinding:
        received, most = facts.count("received", self.raw), self.most(facts)
        if self.looks_closer(facts):
            duplicates, identical = facts.count(DUPLICATES), facts.count(IDENTICAL)
            observed = (
                f"{duplicates} of {received} rows give way to one of equal key and version, "
                f"{identical} of them to an identical line{facts.example(DUPLICATES)}"
            )
        else:
            duplicates = facts.count("deduplicated")
            observed = f"{duplicates} of {received} rows deduplicated, newer versions counted in"
        return GateFinding(
            duplicates <= most,
            observed=observed,
            expected=f"at most {most}",
            next_step=(
                "Are these lines rows of their own? Then the key is none: add the columns that distinguish them, or "
                "numbered=True for identical lines. Were they delivered twice? Then declare how many are normal: "
                f"tolerated_duplicates or most_duplicates of the dataset {self.source.name}."
            ),
        )


# ------------------------------------------------------------------ what the values are


@dataclass(frozen=True)
class FewNulls(DayRule):
    """No more than a share of a column is null."""

    column: str
    at_most: Decimal
    name_format = "few_nulls_{column}"
    dimension = "completeness"
    steady_formats = ("nulls_{column}",)

    @property
    def compared(self) -> tuple[str, ...]:
        return (f"nulls_{self.column}",)

    def measure(self) -> Aggregates:
        return {f"nulls_{self.column}": lambda rows: rows.count(where=rows[self.column].isnull())}

    def judge(self, facts: DayFacts) -> GateFinding:
        nulls, rows = facts.count(f"nulls_{self.column}"), facts.count("rows")
        return GateFinding(
            nulls <= rows * self.at_most,
            observed=f"{nulls} of {rows} rows without {self.column}",
            expected=f"at most {self.at_most:%}",
            next_step=f"Find out why {self.column} is missing upstream, then build this day again.",
        )


@dataclass(frozen=True)
class FewUnknown(DayRule):
    """The share of lines that the reference data does not know is not far above what is usual."""

    column: str
    unknown: str
    lines: str
    baseline: Decimal
    times: int = 4
    tolerated_lines: int = 20
    name_format = "few_unknown_{column}"
    column_fields = ("column", "lines")
    dimension = "validity"
    steady_formats = ("unknown_{column}",)

    def measure(self) -> Aggregates:
        return {
            f"unknown_{self.column}": lambda rows: exact_sum(rows[self.lines], rows[self.column] == self.unknown),
            f"lines_by_{self.column}": lambda rows: exact_sum(rows[self.lines]),
        }

    def judge(self, facts: DayFacts) -> GateFinding:
        unknown, lines = facts.count(f"unknown_{self.column}"), facts.count(f"lines_by_{self.column}")
        most = _most(lines, self.baseline * self.times, self.tolerated_lines)
        return GateFinding(
            unknown <= most,
            observed=f"{unknown} of {lines} lines have an unknown {self.column}",
            expected=f"at most {most}: {self.times} times the usual {self.baseline:.2%}",
            next_step=(
                "Land and build the reference data of that time (the whole catalogue), then build this day again."
            ),
        )


@dataclass(frozen=True)
class RatesFound(DayRule):
    """Every line has an exchange rate; the transform leaves it out if the last one is too old."""

    rate: str
    currency: str
    within_days: int
    name_format = "rates_found"
    column_fields = ("rate", "currency")
    dimension = "completeness"

    def measure(self) -> Aggregates:
        return {
            "without_rate": lambda rows: rows.count(where=rows[self.rate].isnull()),
            "without_rate_example": self._currencies_without,
        }

    def _currencies_without(self, rows: ir.Table) -> ir.StringScalar:
        found = rows[self.currency].collect(where=rows[self.rate].isnull(), distinct=True)
        return found.sort().join(", ").fill_null("")

    def judge(self, facts: DayFacts) -> GateFinding:
        without, currencies = facts.count("without_rate"), facts.own.get("without_rate_example")
        return GateFinding(
            without == 0,
            observed=f"{without} lines without a rate" + (f" ({currencies})" if currencies else ""),
            expected=f"a rate published within {self.within_days} days for every line",
            next_step="Land and build the missing days of the exchange rates, then build this day again.",
        )


@dataclass(frozen=True)
class ConvertedExactly(DayRule):
    """Every converted amount is the amount divided by the rate beside it, to half of the last digit."""

    amount: str
    rate: str
    converted: str
    digits: int
    name_format = "converted_exactly_{converted}"
    column_fields = ("amount", "rate", "converted")
    dimension = "consistency"

    def measure(self) -> Aggregates:
        return {f"misconverted_{self.converted}": lambda rows: rows.count(where=self._is_no_quotient(rows))}

    def _is_no_quotient(self, rows: ir.Table) -> ir.BooleanValue:
        """Doubles do not overflow; 0.51 covers their rounding."""
        amount, rate, converted = (rows[name].cast("float64") for name in (self.amount, self.rate, self.converted))
        return (converted * rate - amount).abs() > rate * (0.51 * 10**-self.digits)

    def judge(self, facts: DayFacts) -> GateFinding:
        wrong = facts.count(f"misconverted_{self.converted}")
        return GateFinding(
            wrong == 0,
            observed=f"{wrong} rows whose {self.converted} is not {self.amount} divided by {self.rate}",
            expected="none",
            next_step="The transform shows another rate than it used, or rounds twice: fix it in a new version.",
        )


# ------------------------------------------------------------------ when rows and reference data came


@dataclass(frozen=True)
class ArrivedWithin(DayRule):
    """No more than a share of the rows landed later than some days after their day; a few are always tolerated."""

    days: int
    at_most: Decimal
    tolerated_rows: int = 0
    severity: Severity = "warning"
    name_format = "arrived_within"
    columns = ("arrival_day",)
    dimension = "timeliness"
    steady_formats = (LATE_ROWS,)

    def measure(self) -> Aggregates:
        """Markers in raw have no arrival day."""
        return {
            LATE_ROWS: lambda rows: rows.count(where=rows.arrival_day.delta(rows.day, unit="day") > self.days),
            "arrived_rows": lambda rows: rows.arrival_day.count(),
        }

    def judge(self, facts: DayFacts) -> GateFinding:
        late, arrived = facts.count(LATE_ROWS), facts.count("arrived_rows")
        most = _most(arrived, self.at_most, self.tolerated_rows)
        return GateFinding(
            late <= most,
            observed=f"{late} of {arrived} rows arrived more than {format_count(self.days, 'day')} after their day",
            expected=f"at most {most}",
            next_step="Ask the source why it delivers late. Who read this day before saw it without these rows.",
        )


@dataclass(frozen=True)
class RecentReference(DayRule):
    """No row was made with reference data older than some days; what is usual between two deliveries is allowed."""

    column: str
    within_days: int
    severity: Severity = "warning"
    name_format = "recent_{column}"
    dimension = "timeliness"
    steady_formats = ("outdated_{column}",)

    def measure(self) -> Aggregates:
        name, most = self.column, self.within_days
        return {f"outdated_{name}": lambda rows: rows.count(where=rows.day.delta(rows[name], unit="day") > most)}

    def judge(self, facts: DayFacts) -> GateFinding:
        outdated = facts.count(f"outdated_{self.column}")
        return GateFinding(
            outdated == 0,
            observed=f"{outdated} rows with a {self.column} more than {self.within_days} days before their day",
            expected="none",
            next_step=(
                "Look for a missing delivery of the reference data; land and build it, then build this day again."
            ),
        )


def _needs(*tables: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for table, *metrics in tables:
        found[table] = (*found.get(table, ()), *metrics)
    return found


def _most(rows: int, share: Decimal, tolerated: int) -> int:
    return int(max(Decimal(tolerated), rows * share))
