"""What a dataset is: the declaration from which builds, gates, Dagster assets, plans and docs are derived.

A dataset is a few :class:`Step` objects. A step builds one or more tables that are always published together
(``bronze_sales`` and ``quarantine_sales``). How it computes them is a :class:`Version`: versions stand side by
side and one is declared current, so that history can be rebuilt with the new logic, and put back.
"""

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
"""How a table of days follows when a day of its first input gains rows.

``rows``: each of its rows comes from one row of that input, of the same day and key, and from reference data: only the
rows of changed keys are computed. ``groups``: it is small, and its day is computed whole in the same publication. A
table that declares nothing becomes stale.
"""
Transform = Callable[[Mapping[str, "DataFrame"]], Mapping[str, "DataFrame"]]
"""Rows by table, from those of what is read to those of what is built."""
Metric = int | str | Decimal | None
Metrics = Mapping[str, Metric]
Aggregates = Mapping[str, Callable[["ir.Table"], "ir.Scalar"]]
"""How the rows of a day are aggregated, by metric: an expression of Ibis over them. The names are known without it."""
EXAMPLE = "_example"
"""Metrics whose name ends like this are text; all others are numbers, and add up over the parts of a day."""
FROM = "from."
"""Begins the metrics of what a day was made of: the table, a dot, and its metric."""
DUPLICATES = "duplicates"
"""The metric of the rows that gave way to an equal version, measured on days where it matters."""
IDENTICAL = "duplicates_identical"
"""Those of them that gave way to a line of equal content."""
CORRECTED = "corrected"
"""The metric of the rejected rows that came again, sound, measured on days where it matters."""
OCCURRENCE = "occurrence"
"""The column that numbers identical lines, and the name by which a key asks for it."""
OWN = ""
"""Stands for a rule's own table in what it needs."""
ADOPTED = "adopted"
"""The code version of days that were taken over with their table: nothing here has computed them."""
PUBLISHED_DAYS = "published_days"
"""The input that lists which of the days read were ever published (``table: string, day: date``)."""


@dataclass(frozen=True)
class Reads:
    """The days of a daily table that one period of a step is computed from, from its first day to its last.

    ``first`` and ``last`` are added to them; they are in days and never positive: a day is a function of itself and
    of reference data as of that day.
    """

    table: str
    first: int = 0
    last: int = 0
    partial: bool = False
    """Days that were never published are left out and do not hold the period back; ``PUBLISHED_DAYS`` lists others."""

    def __post_init__(self) -> None:
        if not self.first <= self.last <= 0:
            raise InvalidRequest(f"A step cannot read {self.table} at days {self.first}..{self.last} of its own day.")

    def days(self, of: DayRange) -> DayRange:
        """The days of ``table`` that building the period ``of`` reads."""
        return DayRange(of.first + timedelta(days=self.first), of.last + timedelta(days=self.last))

    def counted(self, of: DayRange, filled: Sequence[date]) -> Iterable[date]:
        """Those of :meth:`days` that count, if the table has rows on the ``filled`` days, which are in order."""
        return self.days(of)

    @property
    def declared(self) -> tuple[object, ...]:
        """What the logic of a version is told of it."""
        return (self.table, self.first, self.last, self.partial)


@dataclass(frozen=True)
class AsOf(Reads):
    """The rows of a daily table that hold on a day: those of its newest day that has any, up to the day that is built.

    A dataset by its name stands for its sound rows: ``AsOf("planes")``. The rows are given with the day that they are
    read for, as ``day``: they are joined by it and a key. A state that is older than ``first`` says is not taken.
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
    """What a day rule may look at: this day's metrics, and those of the tables it was built from (as published)."""

    own: Metrics
    upstream: Mapping[str, Metrics] = field(default_factory=dict)
    companions: Mapping[str, Metrics] = field(default_factory=dict)
    """Metrics of the other tables of the same step (``quarantine_sales`` for ``bronze_sales``)."""

    def of(self, table: str) -> Metrics:
        """The metrics of ``table``; those of the judged table itself for ``OWN``."""
        found = self.own if table == OWN else self.companions.get(table, self.upstream.get(table))
        if found is None:
            raise LookupError(f"The metrics of {table} are not among the facts of the day.")
        return found

    def number(self, metric: str, table: str = OWN) -> Decimal:
        """A metric with all its digits. Raises ``LookupError`` if it was not measured."""
        value = self.of(table)[metric]
        if value is None:
            raise LookupError(f"The metric {metric} was not measured.")
        return Decimal(value)

    def count(self, metric: str, table: str = OWN) -> int:
        """A count or a sum of hashes; as int, because such a sum has more digits than decimal arithmetic keeps.

        Raises ``ValueError`` for a number with digits after the point, which would be cut off.
        """
        number = self.number(metric, table)
        if number != (whole := int(number)):
            raise ValueError(f"The metric {metric} is {number}, no count: read it with facts.number.")
        return whole

    def example(self, metric: str, table: str = OWN) -> str:
        """``, for example CHF``, if there is an example of what ``metric`` counts."""
        found = self.of(table).get(f"{metric}{EXAMPLE}")
        return f", for example {found}" if found else ""


@dataclass(frozen=True)
class RuleOutcome:
    """The verdict of one rule on one day of one table, with what a person needs to act on it."""

    rule: str
    dimension: Dimension
    passed: bool
    observed: str
    expected: str
    next_step: str = ""
    severity: Severity = "error"
    details: tuple[str, ...] = ()
    """More about what was observed, line by line: of a broken contract, what pandera says of each check."""

    @property
    def holds_back(self) -> bool:
        """A broken warning is shown; only a broken error keeps its day from being published."""
        return not self.passed and self.severity == "error"


@dataclass(frozen=True)
class GateFinding:
    """What a rule observed, what it expected, and what a person does if they differ."""

    passed: bool
    observed: str
    expected: str
    next_step: str

    def as_outcome(self, rule: str, dimension: Dimension, severity: Severity = "error") -> RuleOutcome:
        """The outcome of the rule called ``rule``. Only a broken rule has a next step."""
        next_step = "" if self.passed else self.next_step
        return RuleOutcome(rule, dimension, self.passed, self.observed, self.expected, next_step, severity)


@dataclass(frozen=True)
class DayRule(ABC):
    """A gate on a whole day: what it measures, how it judges, and what it claims.

    A rule is a frozen dataclass. Its fields are its thresholds, and the first line of its docstring describes it.
    """

    check: str = field(default="", kw_only=True)
    """The name of the asset check that shows it; empty for the one that it belongs to by what it looks at."""
    name_format: ClassVar[str]
    """Its name, in which ``{column}`` is the value of the field ``column``."""
    column_fields: ClassVar[tuple[str, ...]] = ("column",)
    """Those of its fields that name columns of its own table."""
    dimension: ClassVar[Dimension]
    steady_formats: ClassVar[tuple[str, ...]] = ()
    """Its counts that usually are a steady share of the rows, formatted like its name: a day is compared with the past.
    """
    judged_afresh: ClassVar[bool] = False
    """Whether watchdogs judge published days by it, too. A threshold is not: it may change under old days."""

    @property
    def severity(self) -> Severity:
        """Whether a day that breaks the rule is held back, or published with a warning."""
        return "error"

    @property
    def name(self) -> str:
        return self.name_format.format_map(vars(self))

    @property
    def description(self) -> str:
        return (type(self).__doc__ or "").split("\n", 1)[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of its own table that it is measured on."""
        return tuple(getattr(self, name) for name in self.column_fields if hasattr(self, name))

    @property
    def needs(self) -> Mapping[str, tuple[str, ...]]:
        """The tables that it looks at, with the metrics that it reads besides ``rows``; its own table is ``OWN``."""
        return {}

    @property
    def tables(self) -> tuple[str, ...]:
        """The other tables that it looks at."""
        return tuple(name for name in self.needs if name != OWN)

    @property
    def compared(self) -> tuple[str, ...]:
        """Those of its metrics that a difference shows beside the published ones."""
        return ()

    @property
    def steady(self) -> tuple[str, ...]:
        """The metrics that :attr:`steady_formats` names."""
        return tuple(each.format_map(vars(self)) for each in self.steady_formats)

    def measure(self) -> Aggregates:
        """What it needs measured in its own table; by default nothing but what is measured of every table.

        A metric is a number that adds up over the parts of a day. One whose name ends in ``_example`` is text that
        shows what the metric before the ending counts. It is made only for days where that is not 0.
        """
        return {}

    @abstractmethod
    def judge(self, facts: DayFacts) -> GateFinding:
        """Whether a day fulfils it, by what was measured."""

    def outcome(self, facts: DayFacts) -> RuleOutcome:
        """Its verdict on a day, under its name."""
        return self.judge(facts).as_outcome(self.name, self.dimension, self.severity)


@dataclass(frozen=True)
class Table:
    """A Delta table partitioned by ``day``, the first day of a period, and the contract of its rows."""

    name: str
    layer: Layer
    description: str
    contract: type[Contract]
    key: tuple[str, ...]
    rules: tuple[DayRule, ...] = ()
    totals: tuple[str, ...] = ()
    """Columns whose sum is measured for every day, as the metric ``total_<column>``."""
    groups: tuple[str, ...] = ()
    """Columns of few different values, such as a currency: a difference is also shown for each value."""
    made_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """What a column is computed from, as ``table.column``, where it is not carried under its own name."""
    typed: type[Contract] | None = None
    """Of raw, the contract of its sound rows: what lands is measured against it."""
    unusual_beyond: float | None = 6.0
    """A day is unusual if a figure of it lies further than as many deviations from its median in the recent past (the
    check ``as_usual``, a warning). None: it is not compared."""

    @cached_property
    def measured(self) -> Aggregates:
        """What its rules measure."""
        return {name: made for rule in self.rules for name, made in rule.measure().items()}


@dataclass(frozen=True)
class Version:
    """One way to compute a step: a pure function from the rows of what it reads to the rows of its tables.

    The mapping it is given also has :data:`PUBLISHED_DAYS` if one of its reads is partial.
    The rows it returns are clustered: all rows of a day lie in one partition, so that a day is written as one file.
    How raw becomes bronze is declared instead, as a :class:`~backfill_assets.model.refinement.Refinement`, and where a
    table of others lies as an :class:`~backfill_assets.model.external_table.ExternalTable`.
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
    """A landing folder with files by arrival day: JSON lines in a folder for each day, unless it is a
    :class:`~backfill_assets.model.landed_format.SourceOfFiles`.
    """

    name: str
    event_day_field: str
    """As it is called in raw, and so is the field of the version; empty for one that is landed whole when it changes:
    its rows are of the day that they arrived on."""
    key_fields: tuple[str, ...]
    """As they are landed, also where they are personal; ``key_columns`` has what stands for them in raw."""
    version_field: str
    fields: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The fields that are not text when typed, with their Spark type: ``{"quantity": "bigint"}``."""
    personal_fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Personal fields, with the column that keeps their token instead."""
    renamed_fields: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Fields that have another name in raw, with the column that keeps them: one called as the day of the row, say."""
    rescued_fields: tuple[str, ...] = ()
    """Fields that rows carried before they were declared: also read from what raw kept of them, ``rescued``."""
    supersession_window_days: int = 0
    """Newer versions of a row that belong to another day are looked for this many days around."""
    earliest_day: date | None = None
    """Event days before this are absurd; such rows stay on the day they arrived, flagged. None: ``first_day``."""
    days_ahead: int = 1
    """Event days that lie further than this after the arrival day are absurd."""
    event_zone: str = IN_UTC
    """A moment is on the day that the clocks of this time zone show: ``Europe/Berlin``. Arrival days stay in UTC."""
    first_day: date | None = None
    """That of the dataset, which sets it. A source that is in no dataset takes any day for possible."""

    @property
    def replaced_whole(self) -> bool:
        """Whether each landed day is all there is from then on: a day without one means that nothing has changed."""
        return not self.event_day_field

    @property
    def placement(self) -> Placement:
        """Which event days are possible."""
        return Placement(self.earliest_day or self.first_day, self.days_ahead, self.event_zone)

    def days_around(self, days: Iterable[date]) -> set[date]:
        """``days``, and those on which their rows may have other versions; none if the source has no such window."""
        width = self.supersession_window_days
        return {day + timedelta(days=n) for day in days for n in range(-width, width + 1)} if width else set()

    def why_on_arrival_day(self, named: date, *, of_topic: bool = False) -> str:
        """Why a row that names the day ``named`` is on the day it arrived, and what to declare if it is right."""
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
        """The landed fields as raw columns, in order, tokens in the place of personal fields."""
        return tuple(map(self.column_of, self.fields))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key as raw columns, tokens in the place of personal fields."""
        return tuple(map(self.column_of, self.key_fields))

    @property
    def parsed_columns(self) -> tuple[str, ...]:
        """The raw columns whose text is not yet their value."""
        return tuple(name for name in self.columns if name != "day" and self.type_of(name) != "string")

    def column_of(self, field: str) -> str:
        """The raw column of a landed field."""
        return self.personal_fields.get(field) or self.renamed_fields.get(field, field)

    def type_of(self, column: str) -> str:
        return self.types.get(column, "string")


@dataclass(frozen=True)
class Step:
    """Tables that are built and published together, by one of several versions of the logic.

    A step with a ``source`` appends what arrived on a day (raw); every other step replaces whole days. One that is
    ``external`` stands for a table that others write: its days are looked at, never built.
    """

    tables: tuple[Table, ...]
    versions: tuple[Version, ...] = ()
    current: str = ""
    source: Source | None = None
    external: ExternalTable | None = None
    cadence: Cadence = Cadence.DAILY
    lateness: Lateness | None = None
    """Of a step with a source; None takes rows in however late they land."""
    delivered_within: timedelta | None = None
    """How long after the end of a day (UTC) its landed files are there, see the check ``delivered``. None: any time."""
    sends_totals: bool = False
    """Whether each landed day has a file ``_control.json`` with what was sent, see the check ``as_sent``."""

    @property
    def name(self) -> str:
        return self.tables[0].name

    @property
    def table_names(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.tables)

    @property
    def is_origin(self) -> bool:
        """Whether its rows come from outside the lakehouse: landed, or in a table of others."""
        return self.source is not None or self.external is not None

    @property
    def reads(self) -> tuple[Reads, ...]:
        """What the current version reads; a step with a source reads no table."""
        return () if self.source else self.version().reads

    @property
    def code_version(self) -> str:
        """The name of the current version; of a step with a source, the ingestion and its placement."""
        return self.source.placement.code_version if self.source else self.current

    def version(self, name: str | None = None) -> Version:
        """The version called ``name``, or the current one; raises :class:`UnknownVersion` for ``v9``."""
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
"""As far as any clock is from UTC, and as far as Spark reads."""
_YEARS_BETWEEN = "([1-8][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[2-9]|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
"""In UTC a moment of these years has four digits, and is no year before the first."""
MOMENT_IN_UTC = f"{_ANY_YEAR}{_OF_YEAR}([.][0-9]{{1,6}})?Z"
"""The one form of a moment that was read before others were: hashes of raw rows that landed then are by it."""
ENDLESS = "Inf"
"""What is in the text of a number without end."""
_BINARY = f"[+-]?([0-9]+([.][0-9]+)?([eE][+-]?[0-9]{{1,4}})?|{ENDLESS}inity)|NaN"
_LIST, _OBJECT = r"\[[^\x1f]*\]", r"\{[^\x1f]*\}"
"""Without the sign that stands between fields where several are looked at together; JSON has it in no text."""
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "bigint": "[+-]?[0-9]{1,18}",
        "int": "[+-]?[0-9]{1,10}",
        "smallint": "[+-]?[0-9]{1,5}",
        "tinyint": "[+-]?[0-9]{1,3}",
        # The nearest one; a number that is greater than the greatest is none.
        "double": f"({_BINARY})",
        "float": f"({_BINARY})",
        "boolean": "(true|false)",
        "date": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        # Cut to microseconds, in UTC or as far from it as the text says.
        "timestamp": f"({_ANY_YEAR}{_OF_YEAR}{_FRACTION}{_UTC}|{_YEARS_BETWEEN}{_OF_YEAR}{_FRACTION}{_AWAY})",
    }
)


def require_landed_type(spark_type: str) -> None:
    """Raise :class:`InvalidRequest` for a type that landed text cannot be typed as."""
    if spark_type != "string":
        landed_pattern(spark_type)


def a_type(spark_type: str) -> str:
    """``a bigint``, ``an int``: in a sentence."""
    return f"an {spark_type}" if spark_type.startswith(("a", "i")) else f"a {spark_type}"


def item_of(spark_type: str) -> str:
    """The type of the items of a list; empty for another type."""
    return spark_type[len("array<") : -1] if spark_type.startswith("array<") else ""


def landed_pattern(spark_type: str) -> str:
    """How a landed text is written that may be a value of ``spark_type``; not every such text is one."""
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
