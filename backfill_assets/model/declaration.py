"""A :class:`Step` builds tables published together; each :class:`Version` is a way to compute them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from backfill_assets.days import Cadence, DayRange
from backfill_assets.errors import InvalidRequest, UnknownVersion
from backfill_assets.model.landed_structures import has_structure, leaves_of, structure_problem
from backfill_assets.model.lateness import Lateness
from backfill_assets.model.placement import IN_UTC, Placement
from backfill_assets.model.record_parts import is_part
from backfill_assets.text import format_count

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from pyspark.sql import DataFrame

    from backfill_assets.model.contract import Contract
    from backfill_assets.model.external_table import ExternalTable
    from backfill_assets.model.refinement import Refinement

Layer = Literal["external", "raw", "bronze", "quarantine", "fact", "report"]
Dimension = Literal["completeness", "uniqueness", "validity", "consistency", "timeliness"]
Severity = Literal["error", "warning"]
Follows = Literal["", "rows", "groups"]
"""How a day follows when that day of its first input gains rows.

- ``rows``: each row is of one input row with its day and key: changed keys are computed.
- ``groups``: a small table, computed whole in that publication.
- empty: it becomes stale.
"""
Transform = Callable[[Mapping[str, "DataFrame"]], Mapping[str, "DataFrame"]]
Metric = int | str | Decimal | None
Metrics = Mapping[str, Metric]
Aggregates = Mapping[str, Callable[["ir.Table"], "ir.Scalar"]]
EXAMPLE = "_example"
"""Suffix of text metrics; others add up over parts of a day."""
FROM = "from."
"""Prefix: ``from.<table>.<metric>``."""
DUPLICATES = "duplicates"
"""Metric: rows that lost to an equal version, if any."""
IDENTICAL = "duplicates_identical"
"""Metric: duplicates of equal content."""
CORRECTED = "corrected"
"""Metric: rejected rows that came again, sound, if any."""
OCCURRENCE = "occurrence"
"""Numbers identical lines; a key with it asks for them."""
OWN = ""
ADOPTED = "adopted"
"""Code version of days adopted with their table."""
PUBLISHED_DAYS = "published_days"
"""Input: ever published days of read tables (``table: string, day: date``)."""


@dataclass(frozen=True)
class Reads:
    """Days of a daily table that a period reads. ``first`` and ``last`` are offsets from its ends; a positive one
    raises :class:`InvalidRequest`.
    """

    table: str
    first: int = 0
    last: int = 0
    partial: bool = False
    """Days never published do not hold the period back."""

    def __post_init__(self) -> None:
        if not self.first <= self.last <= 0:
            raise InvalidRequest(f"A step cannot read {self.table} at days {self.first}..{self.last} of its own day.")

    def days(self, of: DayRange) -> DayRange:
        return DayRange(of.first + timedelta(days=self.first), of.last + timedelta(days=self.last))

    def counted(self, of: DayRange, filled: Sequence[date]) -> Iterable[date]:
        """``filled`` are the table's sorted days with rows."""
        return self.days(of)

    @property
    def declared(self) -> tuple[object, ...]:
        return (self.table, self.first, self.last, self.partial)


@dataclass(frozen=True)
class AsOf(Reads):
    """The newest day with rows, up to the day built, at most ``first`` days back.

    ``AsOf("planes")`` reads ``bronze_planes``; join by ``day`` (the day built) and key.
    """

    first: int = -3_660

    def __post_init__(self) -> None:
        if self.table.partition("_")[0] not in get_args(Layer):
            object.__setattr__(self, "table", f"bronze_{self.table}")
        super().__post_init__()

    def counted(self, of: DayRange, filled: Sequence[date]) -> Iterable[date]:
        window = self.days(of)
        newest = filled[: bisect_right(filled, window.last)][-1:]
        return [day for day in newest if day >= window.first]

    @property
    def declared(self) -> tuple[object, ...]:
        return ("as of", *super().declared)


@dataclass(frozen=True)
class DayFacts:
    """A day's metrics, and the published ones of its inputs."""

    own: Metrics
    upstream: Mapping[str, Metrics] = field(default_factory=dict)
    companions: Mapping[str, Metrics] = field(default_factory=dict)

    def of(self, table: str) -> Metrics:
        """Raises ``LookupError`` for an unknown table."""
        found = self.own if table == OWN else self.companions.get(table, self.upstream.get(table))
        if found is None:
            raise LookupError(f"The metrics of {table} are not among the facts of the day.")
        return found

    def number(self, metric: str, table: str = OWN) -> Decimal:
        """Raises ``LookupError`` if it was not measured."""
        value = self.of(table)[metric]
        if value is None:
            raise LookupError(f"The metric {metric} was not measured.")
        return Decimal(value)

    def count(self, metric: str, table: str = OWN) -> int:
        """Sums of hashes exceed decimal precision. Raises ``ValueError`` for decimals."""
        number = self.number(metric, table)
        if number != (whole := int(number)):
            raise ValueError(f"The metric {metric} is {number}, no count: read it with facts.number.")
        return whole

    def example(self, metric: str, table: str = OWN) -> str:
        """``, for example CHF``, or an empty text."""
        found = self.of(table).get(f"{metric}{EXAMPLE}")
        return f", for example {found}" if found else ""


@dataclass(frozen=True)
class RuleOutcome:
    rule: str
    dimension: Dimension
    passed: bool
    observed: str
    expected: str
    next_step: str = ""
    severity: Severity = "error"
    details: tuple[str, ...] = ()

    @property
    def holds_back(self) -> bool:
        return not self.passed and self.severity == "error"


@dataclass(frozen=True)
class GateFinding:
    passed: bool
    observed: str
    expected: str
    next_step: str

    def as_outcome(self, rule: str, dimension: Dimension, severity: Severity = "error") -> RuleOutcome:
        next_step = "" if self.passed else self.next_step
        return RuleOutcome(rule, dimension, self.passed, self.observed, self.expected, next_step, severity)


@dataclass(frozen=True)
class DayRule(ABC):
    """A gate on a whole day: a frozen dataclass of thresholds, described by its docstring's first line."""

    check: str = field(default="", kw_only=True)
    """The asset check that shows it; empty: implied."""
    name_format: ClassVar[str]
    column_fields: ClassVar[tuple[str, ...]] = ("column",)
    dimension: ClassVar[Dimension]
    steady_formats: ClassVar[tuple[str, ...]] = ()
    """Counts that ``as_usual`` compares: usually a steady share of the rows."""
    judged_afresh: ClassVar[bool] = False
    """Watchdogs judge by it; not for thresholds, which may have changed."""

    @property
    def severity(self) -> Severity:
        return "error"

    @property
    def name(self) -> str:
        return self.name_format.format_map(vars(self))

    @property
    def description(self) -> str:
        return (type(self).__doc__ or "").split("\n", 1)[0]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(getattr(self, name) for name in self.column_fields if hasattr(self, name))

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        """Metrics read besides ``rows``, by table."""
        return {}

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(name for name in self.needs if name != OWN)

    @property
    def compared(self) -> tuple[str, ...]:
        return ()

    @property
    def steady(self) -> tuple[str, ...]:
        return tuple(each.format_map(vars(self)) for each in self.steady_formats)

    def measure(self) -> Aggregates:
        """Metrics that add up over parts of a day; a text ``<metric>_example`` is only there where the metric is not
        0.
        """
        return {}

    @abstractmethod
    def judge(self, facts: DayFacts) -> GateFinding:
        pass

    def outcome(self, facts: DayFacts) -> RuleOutcome:
        return self.judge(facts).as_outcome(self.name, self.dimension, self.severity)


@dataclass(frozen=True)
class Table:
    """Partitioned by ``day``, the first of its period."""

    name: str
    layer: Layer
    description: str
    contract: type[Contract]
    key: tuple[str, ...]
    rules: tuple[DayRule, ...] = ()
    totals: tuple[str, ...] = ()
    """Columns whose daily sum is the metric ``total_<column>``."""
    groups: tuple[str, ...] = ()
    """Columns with few values, for differences."""
    made_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Origins (``table.column``) of columns with another name."""
    typed: type[Contract] | None = None
    """Only for raw: the contract of sound rows."""
    unusual_beyond: float | None = 6.0
    """Deviations from the recent median that make a day unusual; None compares nothing."""

    @cached_property
    def measured(self) -> Aggregates:
        return {name: made for rule in self.rules for name, made in rule.measure().items()}


@dataclass(frozen=True)
class Version:
    """A pure function of rows read, and of :data:`PUBLISHED_DAYS` with a partial read. All rows of a day are in one
    partition, which becomes one file.
    """

    name: str
    description: str
    reads: tuple[Reads, ...]
    transform: Transform | Refinement
    follows: Follows = ""

    def __post_init__(self) -> None:
        if self.name == ADOPTED:
            raise InvalidRequest(
                f"A version cannot be called {ADOPTED}: days that were taken over with their table are.",
                hint="Give it another name.",
            )


@dataclass(frozen=True)
class Source:
    """A landing folder; by default JSON lines by arrival day."""

    name: str
    event_day_field: str
    """A raw column, like ``version_field``; empty if it lands whole."""
    key_fields: tuple[str, ...]
    version_field: str
    fields: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Not for text: ``{"quantity": "bigint"}``."""
    personal_fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The token's column, by field."""
    renamed_fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The column in raw, by field."""
    rescued_fields: tuple[str, ...] = ()
    """Fields declared after rows carried them: also read from ``rescued``."""
    supersession_window_days: int = 0
    """How far newer versions are looked for."""
    earliest_day: date | None = None
    """Earlier rows stay on their arrival day, flagged; by default ``first_day``."""
    days_ahead: int = 1
    """Rows further after their arrival day stay on it, flagged."""
    event_zone: str = IN_UTC
    """Decides a moment's day: ``Europe/Berlin``. Arrival days are UTC."""
    first_day: date | None = None
    """Set by the dataset; without it any day is possible."""

    @property
    def replaced_whole(self) -> bool:
        """A day without files means no change."""
        return not self.event_day_field

    @property
    def placement(self) -> Placement:
        return Placement(self.earliest_day or self.first_day, self.days_ahead, self.event_zone)

    def days_around(self, days: Iterable[date]) -> set[date]:
        """``days``, and those with other versions of their rows; empty without a window."""
        width = self.supersession_window_days
        return {day + timedelta(days=n) for day in days for n in range(-width, width + 1)} if width else set()

    def why_on_arrival_day(self, named: date, *, of_topic: bool = False) -> str:
        earliest = self.placement.earliest_day
        day = str(named) if self.event_zone == IN_UTC else f"{named} in {self.event_zone}"
        if earliest is None or named >= earliest:
            if of_topic:
                return (
                    f"{day} is more than {format_count(self.days_ahead, 'day')} after the time of its record in the "
                    "topic. If the event is right, the clock of its producer was wrong: send it again with the right "
                    f"time. If both are right, set a greater days_ahead of the source {self.name}, then "
                    f"{self._put_anew}."
                )
            return (
                f"{day} is more than {format_count(self.days_ahead, 'day')} after the day it arrived. If it is "
                f"right, set a greater days_ahead of the source {self.name}, then {self._put_anew}."
            )
        whose = "first_day of its dataset" if self.earliest_day is None else f"earliest_day of the source {self.name}"
        return (
            f"{day} is before {earliest}, {whose}. If it is right, set an earlier first_day of the dataset, or "
            f"earliest_day of the source {self.name}, then {self._put_anew}."
        )

    @property
    def _put_anew(self) -> str:
        return f"run backfill raw refresh raw_{self.name} on the days that backfill status shows as stale"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(self.column_of, self.fields))

    @property
    def value_fields(self) -> tuple[str, ...]:
        return tuple(name for name in self.fields if not is_part(name))

    @property
    def record_fields(self) -> tuple[str, ...]:
        """Of the record that brought a topic's event."""
        return tuple(filter(is_part, self.fields))

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(map(self.column_of, self.key_fields))

    @property
    def parsed_columns(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name != "day" and self.type_of(name) != "string")

    def column_of(self, field: str) -> str:
        return self.personal_fields.get(field) or self.renamed_fields.get(field, field)

    def type_of(self, column: str) -> str:
        return self.types.get(column, "string")


@dataclass(frozen=True)
class Step:
    """Tables published together. With a ``source`` it appends (raw), else it replaces whole days; ``external`` days are
    observed.
    """

    tables: tuple[Table, ...]
    versions: tuple[Version, ...] = ()
    current: str = ""
    source: Source | None = None
    external: ExternalTable | None = None
    cadence: Cadence = Cadence.DAILY
    lateness: Lateness | None = None
    """By default unlimited."""
    delivered_within: timedelta | None = None
    """After the day's end in UTC (check ``delivered``)."""
    sends_totals: bool = False
    """Whether each landed day has a ``_control.json`` (check ``as_sent``)."""
    rejected_to: str = ""
    """The topic that is sent each event that is quarantined."""
    closed: DayRange | None = None
    """Days that nothing is published to."""

    @property
    def name(self) -> str:
        return self.tables[0].name

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.tables)

    @property
    def is_origin(self) -> bool:
        return self.source is not None or self.external is not None

    @property
    def reads(self) -> tuple[Reads, ...]:
        return () if self.source else self.version().reads

    @property
    def code_version(self) -> str:
        """For raw: the ingestion and its placement."""
        return self.source.placement.code_version if self.source else self.current

    def version(self, name: str | None = None) -> Version:
        """Raises :class:`UnknownVersion`."""
        wanted = name or self.current
        for version in self.versions:
            if version.name == wanted:
                return version
        known = ", ".join(v.name for v in self.versions) or "none"
        raise UnknownVersion(f"{self.name} has no version {wanted!r}.", hint=f"Versions: {known}.")


# ------------------------------------------------------------------ how landed text is written

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_OF_YEAR = "-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}"
_FRACTION = "([.][0-9]{1,9})?"
_UTC, _ANY_YEAR = "(Z|[+-]00(:?00)?)", "[0-9]{4}"
_AWAY = "[+-]((0[0-9]|1[0-7])(:?[0-5][0-9])?|18(:?00)?)"
"""Spark reads no offsets further from UTC."""
_YEARS_BETWEEN = "([1-8][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[2-9]|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
"""These years stay within 1 to 9999 with any offset."""
MOMENT_IN_UTC = f"{_ANY_YEAR}{_OF_YEAR}([.][0-9]{{1,6}})?Z"
"""The only form once: older hashes treat others as text."""
ENDLESS = "Inf"
_BINARY = f"[+-]?([0-9]+([.][0-9]+)?([eE][+-]?[0-9]{{1,4}})?|{ENDLESS}inity)|NaN"
_LIST, _OBJECT = r"\[[^\x1f]*\]", r"\{[^\x1f]*\}"
"""U+001F separates fields where one pattern matches several."""
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "bigint": "[+-]?[0-9]{1,18}",
        "int": "[+-]?[0-9]{1,10}",
        "smallint": "[+-]?[0-9]{1,5}",
        "tinyint": "[+-]?[0-9]{1,3}",
        # Read as the nearest double; beyond the greatest it is no value.
        "double": f"({_BINARY})",
        "float": f"({_BINARY})",
        "boolean": "(true|false)",
        "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        # Cut to microseconds.
        "timestamp": f"({_ANY_YEAR}{_OF_YEAR}{_FRACTION}{_UTC}|{_YEARS_BETWEEN}{_OF_YEAR}{_FRACTION}{_AWAY})",
    }
)


def require_landed_type(spark_type: str) -> None:
    """Raises :class:`InvalidRequest` unless text can have it."""
    if spark_type != "string":
        landed_pattern(spark_type)


def a_type(spark_type: str) -> str:
    return f"an {spark_type}" if spark_type.startswith(("a", "i")) else f"a {spark_type}"


def item_of(spark_type: str) -> str:
    return spark_type[len("array<") : -1] if spark_type.startswith("array<") else ""


def landed_pattern(spark_type: str) -> str:
    """Matches all landed texts; a match may be no value. Raises :class:`InvalidRequest`."""
    decimal = _DECIMAL.fullmatch(spark_type)
    if has_structure(spark_type):
        return _structure_pattern(spark_type)
    if item := item_of(spark_type):
        if item_of(item):
            raise InvalidRequest("A landed list has no lists in it.", hint="Land their items as one list, or as text.")
        require_landed_type(item)
        return _LIST
    if decimal is None:
        if spark_type not in _PATTERNS:
            raise InvalidRequest(
                f"Landed text cannot be typed as {spark_type}.",
                hint=f"Use one of {', '.join(_PATTERNS)}, decimal(p,s), string, or an array, struct or map of such.",
            )
        return _PATTERNS[spark_type]
    precision, scale = int(decimal[1]), int(decimal[2])
    fraction = rf"([.][0-9]{{1,{scale}}}0*)?" if scale else ""
    return rf"[+-]?[0-9]{{1,{precision - scale}}}{fraction}"


def _structure_pattern(spark_type: str) -> str:
    if problem := structure_problem(spark_type):
        raise InvalidRequest(f"A landed {spark_type} is declared wrong: {problem}.", hint="Land it as text.")
    for leaf in leaves_of(spark_type):
        require_landed_type(leaf)
    return _LIST if item_of(spark_type) else _OBJECT
