from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.arrival_days import FileNames
from backfill_assets.model.contract import Contract, columns_with, declared_types
from backfill_assets.model.dataset import Dataset, Streamed
from backfill_assets.model.declaration import (
    OCCURRENCE,
    Reads,
    Source,
    Step,
    Table,
    Version,
)
from backfill_assets.model.declared_tables import DeclaredTables
from backfill_assets.model.landed import bronze_contract, quarantine_contract, raw_contract
from backfill_assets.model.landed_format import SourceOfFiles
from backfill_assets.model.lateness import Beyond, Lateness
from backfill_assets.model.placement import IN_UTC
from backfill_assets.model.refinement import Refinement
from backfill_assets.model.rules import (
    ArrivedWithin,
    ContentIntact,
    EverythingAccountedFor,
    FewDuplicates,
    FewRejected,
    VolumeWithin,
)

if TYPE_CHECKING:
    from backfill_assets.model.event_format import EventFormat
    from backfill_assets.model.landed_format import Format

_WITHIN_A_WEEK = ArrivedWithin(days=7, at_most=Decimal("0.05"), tolerated_rows=20)
_ACCOUNTING = ("deduplicated_rows", "deduplicated_hash")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
C = TypeVar("C", bound=type[Contract])


@dataclass(frozen=True)
class _Row:
    version: str
    description: str
    contract: type[Contract]


@dataclass(frozen=True, kw_only=True, eq=False)
class LandedDataset(DeclaredTables):
    rows: str
    most_rows: int
    tolerated_rejects: int
    """So many rejects pass, whatever their share."""
    most_rejected: Decimal = Decimal("0.01")
    """A day with a greater share is held back."""
    tolerated_duplicates: int = 0
    """Rows that may lose to one of their key and version."""
    most_duplicates: Decimal = Decimal(0)
    arrives: ArrivedWithin = _WITHIN_A_WEEK
    """Rows that land later only warn."""
    late_rows: Beyond = "rebuild"
    """Rejecting later rows is logic: with history it needs a new version."""
    totals: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    numbered: bool = False
    """Identical lines are rows, numbered by ``occurrence``."""
    replaced_whole: bool = False
    """A delivery is the whole state from its arrival day on; see :class:`~backfill_assets.model.declaration.AsOf`."""
    supersession_window_days: int = 0
    earliest_day: date | None = None
    days_ahead: int = 1
    event_zone: str = IN_UTC
    streamed: Streamed = False
    delivered_within: timedelta | None = None
    sends_totals: bool = False
    rejected_to: str = ""
    """A topic of the stream's broker, which is sent events that are quarantined; ``stream/dead_letters.py``."""
    format: Format | None = None
    files: str = ""
    """File names with the arrival day: ``sales_{day}.csv``. Empty: folders have it."""
    events: EventFormat | None = None
    """How a topic encodes them. None: as JSON."""
    _rows: list[_Row] = field(default_factory=list, init=False, repr=False)

    # ------------------------------------------------------------- to declare

    def row(self, version: str, description: str) -> Callable[[C], C]:
        """Declare the class of a sound row, a version of bronze; the last is current."""

        def declare(contract: C) -> C:
            self._rows.append(_Row(version, description, contract))
            return contract

        return declare

    # ------------------------------------------------------- what was declared

    @property
    def raw(self) -> str:
        return f"raw_{self.name}"

    @property
    def bronze(self) -> str:
        return f"bronze_{self.name}"

    @property
    def quarantine(self) -> str:
        return f"quarantine_{self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.raw, self.bronze, self.quarantine, *super().names)

    @property
    def source(self) -> Source:
        return self._source(self._current_row().contract)

    def refinement(self, version: str | None = None) -> Refinement:
        row = next((row for row in self._rows if row.version == version), None) or self._current_row()
        contract = row.contract
        key = (*columns_with(contract, "key"), *([OCCURRENCE] if self.numbered else []))
        bronze = bronze_contract(self.name, contract, numbered=self.numbered)
        joined = {name: each.joined for name, each in contract.fields().items() if each.joined}
        takes_days = self.arrives.days if self.late_rows == "quarantine" else None
        return Refinement(self._source(contract), bronze, key, joined, takes_days)

    def dataset(self) -> Dataset:
        self._refuse_what_has_no_day()
        if self.rejected_to and not _TOPIC.fullmatch(self.rejected_to):
            raise self._wrong(f"{self.rejected_to!r} is no name of a topic.", 'Write rejected_to="sales-rejected".')
        current = self.refinement()
        for row in self._rows:
            if self._source(row.contract) != current.source:
                raise InvalidRequest(
                    f"The rows of {self.name} in version {row.version} have other landed fields than the current ones.",
                    hint="Take out the older class: what it computes needs other raw rows.",
                )
        # Where most days have no rows, a day that has some is not unusual.
        steps = self._declared(self._landed_steps(current), None if self.replaced_whole else self.unusual_beyond)
        return Dataset(self.name, self.description, self.owners, steps, self.first_day, self.streamed)

    def _landed_steps(self, current: Refinement) -> tuple[Step, Step]:
        source, computed = current.source, (*_ACCOUNTING, *([OCCURRENCE] if self.numbered else []))
        personal = " and ".join(source.personal_fields)
        tokens = f"; a token stands for each {personal}" if personal else ""
        volume = VolumeWithin(at_most=self.most_rows)
        raw = Table(
            name=self.raw,
            layer="raw",
            description=f"All {self.rows} received, as text, on the day they belong to{tokens}.",
            contract=raw_contract(source, current.contract),
            key=(),
            # Raw takes late rows too: it only warns.
            rules=(ContentIntact(source, "text"), volume, replace(self.arrives, severity="warning")),
            typed=current.contract,
        )
        # Rows rejected as late are counted, and never hold a day back.
        late = replace(self.arrives, at_most=Decimal(1), severity="warning")
        counted = (late,) if self.late_rows == "quarantine" else ()
        quarantine = Table(
            name=self.quarantine,
            layer="quarantine",
            description=f"Rejected {self.rows} as they were landed, with file, line and every reason.",
            contract=quarantine_contract(source, current.contract),
            key=("source_file", "source_line"),
            made_of={"reasons": tuple(f"{self.raw}.{name}" for name in (*source.columns, "unparsed_line"))},
            rules=(ContentIntact(source, "text"), *counted),
        )
        beside = source, self.raw, self.quarantine
        keys = " and ".join(current.key)
        accounted = Table(
            name=self.bronze,
            layer="bronze",
            description=f"Typed, sound {self.rows}: the newest version of each {keys} on each day.",
            contract=current.contract,
            key=current.key,
            totals=self.totals,
            groups=self.groups,
            made_of={
                **dict.fromkeys(computed, (f"{self.raw}.content_hash",)),
                **{name: tuple(f"{self.raw}.{part}" for part in parts) for name, parts in current.derived.items()},
            },
            rules=(
                ContentIntact(source, "values"),
                EverythingAccountedFor(raw=self.raw, quarantine=self.quarantine),
                FewRejected(*beside, self.most_rejected, self.tolerated_rejects),
                FewDuplicates(*beside, self.most_duplicates, self.tolerated_duplicates),
                volume,
                self.arrives,
            ),
        )
        versions = tuple(
            Version(row.version, row.description, (Reads(self.raw),), self.refinement(row.version))
            for row in self._rows
        )
        landed = Step(
            (raw,),
            source=source,
            lateness=Lateness(self.arrives.days, self.late_rows),
            delivered_within=self.delivered_within,
            sends_totals=self.sends_totals,
            rejected_to=self.rejected_to,
        )
        return landed, Step((accounted, quarantine), versions, versions[-1].name)

    def _source(self, row: type[Contract]) -> Source:
        landed = {name: each for name, each in row.fields().items() if not each.joined}
        parts = {name: each.record for name, each in landed.items() if each.record}
        names = {name: each.personal or each.landed or name for name, each in landed.items()}
        names |= {name: part.field for name, part in parts.items()}
        of_raw = {name: each.personal or name for name, each in landed.items()}
        key = [part for name in columns_with(row, "key") for part in row.fields()[name].joined or (name,)]
        types = declared_types(row)
        source = Source(
            name=self.name,
            event_day_field="" if self.replaced_whole else of_raw[self._only(row, "event_day")],
            key_fields=tuple(dict.fromkeys(names.get(part, part) for part in key)),
            version_field=self._version_field(row, of_raw),
            fields=tuple(names.values()),
            types={name: types[name] for name in landed if types[name] != "string"},
            personal_fields={
                **{each.personal: name for name, each in landed.items() if each.personal},
                **{part.field: name for name, part in parts.items() if part.personal},
            },
            renamed_fields={
                **{each.landed: name for name, each in landed.items() if each.landed},
                **{part.field: name for name, part in parts.items() if not part.personal},
            },
            rescued_fields=tuple(name for name, each in landed.items() if each.rescued),
            supersession_window_days=self.supersession_window_days,
            earliest_day=self.earliest_day,
            days_ahead=self.days_ahead,
            event_zone=self.event_zone,
        )
        if self.format is None and self.events is None and not self.files:
            return source
        files = FileNames(self.files).pattern if self.files else ""
        declared = {each.name: getattr(source, each.name) for each in fields(source)}
        return SourceOfFiles(**declared, format=self.format, files=files, events=self.events)

    def _version_field(self, row: type[Contract], of_raw: Mapping[str, str]) -> str:
        """``replaced_whole`` needs none: content hashes decide among versions."""
        if not self.replaced_whole or columns_with(row, "version"):
            return of_raw[self._only(row, "version")]
        landed = [part for name in columns_with(row, "key") for part in row.fields()[name].joined or (name,)]
        if not landed:
            raise self._wrong(f"no field of {row.__name__} is its key.", "Mark one: Field(key=True, ...).")
        return landed[0]

    def _wrong(self, what: str, hint: str) -> InvalidRequest:
        return InvalidRequest(f"The dataset {self.name} is declared wrong: {what}", hint=hint)

    def _refuse_what_has_no_day(self) -> None:
        if not self.replaced_whole:
            return
        marked = (
            f"{name} of {each.contract.__name__}"
            for each in self._rows
            for name in columns_with(each.contract, "event_day")
        )
        if field := next(marked, ""):
            raise self._wrong(
                f"{field} is an event day.", "Leave out event_day=True: rows are of the day they arrive on."
            )
        said = ("supersession_window_days", "earliest_day", "streamed", "delivered_within")
        if name := next((each for each in said if getattr(self, each)), ""):
            raise self._wrong(
                f"{name} is set.", "Leave it out: what is replaced_whole has no event days and no delivery."
            )

    def _only(self, row: type[Contract], mark: str) -> str:
        found = [name for name in columns_with(row, mark) if not row.fields()[name].joined]
        if len(found) != 1:
            raise InvalidRequest(
                f"The dataset {self.name} is declared wrong: {len(found)} fields of {row.__name__} are its {mark}.",
                hint=f"Mark one landed field: Field({mark}=True, ...).",
            )
        return found[0]

    def _current_row(self) -> _Row:
        if not self._rows:
            raise InvalidRequest(
                f"The dataset {self.name} declares no row.",
                hint='Put @DATASET.row("v1", "Newest of each row.") above the class of its rows.',
            )
        return self._rows[-1]
