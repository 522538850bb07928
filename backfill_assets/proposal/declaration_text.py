"""A proposed dataset's module, with evidence and open questions as comments. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets.proposal.field_types import TypedField, evidence
from backfill_assets.proposal.names import columns_of_fields, said_of, words_of
from backfill_assets.proposal.roles import Roles
from backfill_assets.proposal.source_text import WIDTH, Verbatim, argument, call, comment, literal, number, question
from backfill_assets.text import escape_controls, format_count

_OF_PYTHON = {
    "string": "str",
    "bigint": "int",
    "double": "float",
    "boolean": "bool",
    "date": "date",
    "timestamp": "datetime",
    "decimal(38,18)": "Decimal",
}
_LEAST_ROWS = 100_000
"""A day may have so many, or ten times the seen."""
_TIMES = 10
_LONGEST_NAME = 30
"""One letter could hide an import."""


@dataclass(frozen=True)
class Proposal:
    name: str
    package: str
    said: str
    rows: int
    fields: tuple[TypedField, ...]
    roles: Roles
    first_day: date | None
    most_rows: int
    ranges: Mapping[str, tuple[str, str]]
    format: tuple[str, Mapping[str, object]] | None = None
    """Class and unusual arguments."""
    files: str = ""
    repeated: int = 0
    questions: tuple[str, ...] = field(default=())


def declaration(proposal: Proposal) -> str:
    """The module can be imported; soundness depends on open questions."""
    return "\n".join(DeclarationText(proposal).lines()) + "\n"


class DeclarationText:
    how = "as they are landed"
    row_first = False
    counted_rows = True

    def __init__(self, proposal: Proposal) -> None:
        self.of = proposal
        self.variable = proposal.name.upper() if 1 < len(proposal.name) <= _LONGEST_NAME else "DATASET"
        self.row = f"{_camel(proposal.name)}Row"
        self.columns = _columns(proposal.fields)
        self.taken = {*self.columns.values()}

    def lines(self) -> Iterator[str]:
        parts = [list(part) for part in self._parts()]
        body = [line for part in parts for line in ("", "", *part)][2:]
        yield f'"""{safe(sentence(self.of.name))}, {self.how}: proposed from {safe(self.of.said)}.'
        yield ""
        yield "Comments say what was seen there. Answer each QUESTION, and delete its line:"
        yield f"backfill dataset check {self.of.name} lists those that are left."
        yield '"""'
        yield ""
        yield from _imports("\n".join(body))
        yield from [""] * (2 if self.row_first else 1)
        yield from body

    def _parts(self) -> Iterator[Iterator[str]]:
        yield from (self._row(), self._dataset()) if self.row_first else (self._dataset(), self._row())
        yield self._report()
        yield self._version()

    # ------------------------------------------------------------------ parts

    def _dataset(self) -> Iterator[str]:
        of, words = self.of, " ".join(words_of(self.of.name))
        for each in self._questions_of_all():
            yield question(each)
        arguments: dict[str, object] = {
            "name": of.name,
            "description": f"{sentence(of.name)}, {self.how}.",
            "owners": (f"team:{of.package}",),
            "first_day": Verbatim(date_text(of.first_day or date(2000, 1, 1))),
            "rows": words,
            "most_rows": Verbatim(number(max(_LEAST_ROWS, _rounded(_TIMES * of.most_rows)))),
            "tolerated_rejects": 5,
        }
        if of.repeated:
            arguments["tolerated_duplicates"] = of.repeated
        yield f"{self.variable} = LandedDataset("
        for name, value in arguments.items():
            yield from argument(name, value, 1)
        if of.format is not None:
            name, given = of.format
            yield from call(f"format={name}", given, after=",", indent=1)
        if of.files:
            yield from argument("files", of.files, 1)
        yield ")"

    def _questions_of_all(self) -> Iterator[str]:
        of = self.of
        yield "what is it, in a sentence, and who owns it?"
        if of.first_day is None:
            yield "which is the first day that can have data? Rows before it are rejected."
        else:
            seen = f"is {of.first_day} the first day that can have data?"
            yield f"{seen} It is that of the sample; rows before it are rejected."
        yield from of.questions
        if of.repeated:
            yield (
                f"{format_count(of.repeated, 'row')} repeat another one: delivered twice, as is declared, or rows of "
                "their own? Then numbered=True."
            )

    def _row(self) -> Iterator[str]:
        yield f'@{self.variable}.row("v1", "Newest of each key.")'
        yield f"class {self.row}(Contract):"
        yield f'    """A sound row of {safe(" ".join(words_of(self.of.name)))}."""'
        yield ""
        yield from (question(each, 1) for each in self.of.roles.questions.get("", ()))
        for each in self.of.fields:
            yield from self._field(each)

    def _field(self, typed: TypedField) -> Iterator[str]:
        name, roles, column = typed.name, self.of.roles, self.columns[typed.name]
        said = [evidence(typed, self.of.rows)]
        least, greatest = self.of.ranges.get(name, ("", ""))
        if least and not typed.personal:
            said.append(f"{least} to {greatest}" if least != greatest else f"always {least}")
        text = "; ".join(said)
        yield comment(f"{text}: {roles.seen[name]}" if name in roles.seen else text, 1)
        for asked in (*roles.questions.get(name, ()), *typed.questions):
            yield question(asked, 1)
        marks: dict[str, object] = {}
        for mark, names in self._marks().items():
            if name in names:
                marks[mark] = True
        if typed.nullable:
            marks["nullable"] = True
        if typed.personal:
            marks["personal"] = name
        elif column != name:
            marks["landed"] = name
        marks["description"] = said_of(name)
        yield from call(f"{column}: {self._annotation(typed.type)} = Field", marks, indent=1)

    def _marks(self) -> Mapping[str, Sequence[str]]:
        roles = self.of.roles
        return {"key": roles.key, "event_day": (roles.day,), "version": (roles.version,)}

    def _report(self) -> Iterator[str]:
        of, counted = self.of, self._counted
        group = next((each for each in of.fields if each.name == of.roles.group), None)
        yield f"@{self.variable}.table("
        yield f'    "report_{of.name}",'
        if self.counted_rows:
            yield f'    rules=(TotalAgrees({literal(counted)}, {self.read}, "rows"),),'
        yield f"    totals=({literal(counted)},),"
        yield ")"
        yield f"class {_camel(of.name)}OfADay(Contract):"
        by = f" by {' '.join(words_of(group.name))}" if group else ""
        yield f'    """How many rows of {safe(" ".join(words_of(of.name)))} there were{safe(by)}."""'
        yield ""
        made_of = self.columns[(of.roles.key or tuple(self.columns))[0]]
        if group:
            column = self.columns[group.name]
            yield from call(
                f"{column}: {self._annotation(group.type)} = Field",
                {"key": True, "description": said_of(group.name)},
                indent=1,
            )
        yield from call(
            f"{counted}: {self._annotation('bigint')} = Field",
            {"ge": 1, "made_of": made_of, "description": "How many there were."},
            indent=1,
        )
        marks = {} if group else {"key": True}
        yield from call(
            f"day: {self._annotation('date')} = Field", {**marks, "description": "The day they belong to."}, indent=1
        )

    def _version(self) -> Iterator[str]:
        of = self.of
        contract, by = f"{_camel(of.name)}OfADay", ["day", *([self.columns[of.roles.group]] if of.roles.group else [])]
        yield from call(f"@{self.variable}.version", {}, plain=[contract, '"v1"', '"Counted by day."', self.read])
        yield f"def {of.name}_of_a_day(rows: DataFrame) -> DataFrame:"
        grouped, counted = f"rows.groupBy({', '.join(map(literal, by))})", literal(self._counted)
        whole = f'    return {grouped}.agg(F.count("*").alias({counted}))'
        if len(whole) <= WIDTH:
            yield whole
            return
        yield from call("grouped = rows.groupBy", {}, plain=list(map(literal, by)), indent=1)
        yield f'    return grouped.agg(F.count("*").alias({counted}))'

    @property
    def read(self) -> str:
        return f"{self.variable}.bronze"

    @property
    def _counted(self) -> str:
        group = self.columns.get(self.of.roles.group, "")
        return "entries" if group.lower() != "entries" else "counted_entries"

    def _annotation(self, kind: str) -> str:
        if kind.startswith("array<"):
            return f"list[{self._annotation(kind[len('array<') : -1])}]"
        if (name := _OF_PYTHON.get(kind)) and name not in self.taken:
            return name
        if kind.startswith("decimal("):
            return f"Annotated[T.DecimalType, {kind[len('decimal(') : -1].replace(',', ', ')}]"
        return f"T.{_OF_SPARK[kind]}"


_OF_SPARK = {
    "string": "StringType",
    "bigint": "LongType",
    "int": "IntegerType",
    "smallint": "ShortType",
    "tinyint": "ByteType",
    "double": "DoubleType",
    "float": "FloatType",
    "boolean": "BooleanType",
    "date": "DateType",
    "timestamp": "TimestampType",
    "binary": "BinaryType",
}
_STANDARD = (("datetime", ("date", "datetime")), ("decimal", ("Decimal",)), ("typing", ("Annotated",)))
_ENGINE = (("pyspark.sql", ("DataFrame", "functions as F", "types as T")),)
_OURS = (
    ("backfill_assets.landing.csv_files", ("Csv",)),
    ("backfill_assets.landing.parquet_files", ("Parquet",)),
    ("backfill_assets.model.contract", ("Contract", "Field")),
    ("backfill_assets.model.derived_dataset", ("DerivedDataset",)),
    ("backfill_assets.model.external_table", ("ExternalTable",)),
    ("backfill_assets.model.landed_dataset", ("LandedDataset",)),
    ("backfill_assets.model.rules", ("TotalAgrees",)),
)


def _imports(body: str) -> Iterator[str]:
    yield "from __future__ import annotations"
    for block in (_STANDARD, _ENGINE, _OURS):
        yield ""
        for module, names in block:
            used = [name for name in names if re.search(rf"\b{name.rpartition(' ')[2]}\b[.,()\[\]\s=]", body)]
            plain = [name for name in used if " as " not in name]
            yield from (
                f"from {module} import {', '.join(each)}"
                for each in (plain, *([name] for name in used if name not in plain))
                if each
            )


def _columns(fields: Sequence[TypedField]) -> Mapping[str, str]:
    of_long_type = {each.name for each in fields if each.type.startswith(("decimal(", "array<"))}
    columns = dict(columns_of_fields((each.name for each in fields), of_long_type))
    for name in (each.name for each in fields if each.personal):
        column = f"{columns[name]}_token"
        while column.lower() in {each.lower() for each in columns.values()}:
            column += "_"
        columns[name] = column
    return columns


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def sentence(name: str) -> str:
    words = " ".join(words_of(name))
    return f"{words[:1].upper()}{words[1:]}"


def safe(text: str) -> str:
    return escape_controls(text).replace("\\", "/").replace('"', "'")


def date_text(day: date) -> str:
    return f"date({day.year}, {day.month}, {day.day})"


def _rounded(count: int) -> int:
    unit = int(10 ** (len(str(count)) - 1))
    return -(-count // unit) * unit
