"""A module with an external table and a first report. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from backfill_assets.proposal.declaration_text import DeclarationText, Proposal, date_text, safe, sentence
from backfill_assets.proposal.names import words_of
from backfill_assets.proposal.source_text import Verbatim, argument, literal, question


@dataclass(frozen=True)
class TableOfOthers:
    name: str
    location: str
    is_delta: bool
    left: tuple[str, ...] = ()
    is_moment: bool = False


def external_declaration(proposal: Proposal, table: TableOfOthers) -> str:
    """The module can be imported; without a day it is not sound."""
    return "\n".join(_ExternalText(proposal, table).lines()) + "\n"


class _ExternalText(DeclarationText):
    how = "as others write them"
    row_first = True
    counted_rows = False

    def __init__(self, proposal: Proposal, table: TableOfOthers) -> None:
        # Every contract has a column day: it is not declared again.
        self.own_day = proposal.roles.day if proposal.roles.day.lower() == "day" else ""
        fields = tuple(each for each in proposal.fields if each.name != self.own_day)
        super().__init__(replace(proposal, fields=fields))
        self.table = table

    @property
    def read(self) -> str:
        return literal(self.table.name)

    def _marks(self) -> Mapping[str, Sequence[str]]:
        return {"key": self.of.roles.key}

    def _row(self) -> Iterator[str]:
        if self.table.left:
            yield question(f"is any of {', '.join(sorted(self.table.left))} to be read? What has parts is left out.")
        yield f"class {self.row}(Contract):"
        yield f'    """A row of {safe(" ".join(words_of(self.table.name)))}, {self.how}."""'
        yield ""
        for each in self.of.fields:
            yield from self._field(each)

    def _dataset(self) -> Iterator[str]:
        of, table = self.of, self.table
        for each in self._questions_of_all():
            yield question(each)
        yield f"{self.variable} = DerivedDataset("
        arguments: Mapping[str, object] = {
            "name": of.name,
            "description": f"{sentence(of.name)}, {self.how}.",
            "owners": (f"team:{of.package}",),
            "first_day": Verbatim(date_text(of.first_day or date(2000, 1, 1))),
        }
        for name, value in arguments.items():
            yield from argument(name, value, 1)
        yield "    external=("
        yield "        ExternalTable("
        yield f"            {literal(table.name)},"
        yield f"            {self.row},"
        yield from argument("location", table.location, 3)
        yield from argument("day", of.roles.day, 3)
        if not table.is_delta:
            yield from argument("written", "parquet", 3)
        yield "        ),"
        yield "    ),"
        yield ")"

    def _questions_of_all(self) -> Iterator[str]:
        of = self.of
        yield "what is it, in a sentence, and who owns it?"
        if of.first_day is None:
            yield "which is the first day that is to be read?"
        else:
            yield f"is {of.first_day} the first day that is to be read?"
        for name in dict.fromkeys(("", self.own_day)):
            yield from of.roles.questions.get(name, ())
        if self.table.is_moment:
            yield f'is the day of {of.roles.day} that of UTC? Else, say event_zone="Europe/Berlin".'
