"""Reports of journal entries, a record for each kind. Their JSON is that of all versions.

Fields that an older version lacks have defaults, and are not written by reading; later versions' are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import not_
from typing import Any

from pydantic import ConfigDict, Field

from backfill_assets.lakehouse.records import AuditRecord

Ranges = tuple[str, ...]
"""``A..B`` or ``A``."""
RangesByTable = Mapping[str, Ranges]
_IN_WORDS = ("known_by", "held_back_days", "staged_again", "leaves_stale", "read_up_to", "other_days", "still_due")
"""Fields whose keys have spaces."""
_NOT_SHOWN = {"difference", "delivered"}


def _key(field: str) -> str:
    return field.replace("_", " ") if field in _IN_WORDS else field


class Report(AuditRecord):
    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=_key, validate_by_name=True, serialize_by_alias=True
    )

    def as_json(self) -> dict[str, Any]:
        """Without defaults."""
        return self.model_dump(mode="json", exclude_unset=True)

    def shown(self) -> dict[str, Any]:
        """What a page shows, by label, without empty ones."""
        said = self.model_dump(mode="json", exclude_unset=True, exclude=_NOT_SHOWN)
        return {label: value for label, value in said.items() if value not in (None, "", [], {})}


class ByPerson(Report):
    """``known_by`` is the source of ``who``; an unknown person has neither."""

    who: str = Field(default="", exclude_if=not_)
    known_by: str = Field(default="", exclude_if=not_)


class BegunReport(ByPerson):
    """Chosen options; None leaves one as it was."""

    waves: str | None = None
    limits: str | None = None
    daemon: bool | None = None
    without_held_back: bool | None = None
    roll_back_if_wrong: bool | None = None


class ApprovalReport(ByPerson):
    """``needed``: how many people have to approve that difference."""

    fingerprint: str | None = None
    needed: int = Field(default=1, exclude_if=lambda number: number == 1)
    without_held_back: bool = Field(default=False, exclude_if=not_)


class PublicationReport(Report):
    """An undo, or its undo, in older journals."""

    publication: str = ""


# ------------------------------------------------------------------ of waves, of steps that stage, and of stops


class StepCounts(Report):
    """Numbers of days."""

    staged: int = 0
    unchanged: int = 0
    held_back: int = Field(default=0, validation_alias="held back", serialization_alias="held back")


class StagedReport(Report):
    """``days`` by step; ``held_back`` by table and day."""

    days: Mapping[str, StepCounts] = Field(default_factory=dict)
    staged: RangesByTable = Field(default_factory=dict)
    unchanged: RangesByTable = Field(default_factory=dict)
    held_back: tuple[str, ...] = ()
    held_back_days: RangesByTable | None = None
    warnings: tuple[str, ...] = ()


class ComparedReport(StagedReport):
    """What people decide on; ``page`` has the difference."""

    sentence: str = ""
    page: str = Field(default="", validation_alias="report", serialization_alias="report")
    fingerprint: str = ""
    difference: str = ""

    @classmethod
    def of(cls, staged: StagedReport, *, sentence: str, page: str, fingerprint: str, difference: str) -> ComparedReport:
        compared = cls(sentence=sentence, page=page, fingerprint=fingerprint, difference=difference)
        return cls.model_validate({**staged.as_json(), **compared.as_json()})


class StopReport(ComparedReport):
    """``helps``: what to do, if not to repair the cause and run the plan again."""

    helps: str = ""
    abandoned: bool = False

    @classmethod
    def after(cls, found: StagedReport, helps: str) -> StopReport:
        """Keeps what was ``found`` until then."""
        return cls.model_validate({**found.as_json(), **({"helps": helps} if helps else {})})


# ------------------------------------------------------------------ of the other steps


class AnnouncedReport(Report):
    notice: str = ""
    reports: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()


class RowsRead(Report):
    days: int
    rows: int


class Refreshed(Report):
    publication: str
    added: int
    deleted: int
    other_days: Ranges = ()


class SourceReport(Report):
    """By table; ``refreshed`` by step."""

    inputs: Mapping[str, RowsRead] = Field(default_factory=dict)
    refreshed: Mapping[str, Refreshed] = Field(default_factory=dict, exclude_if=not_)


class PinnedReport(Report):
    """``not_ingested``: landed files by table and arrival day."""

    sequence: int = -1
    versions: Mapping[str, int | None] = Field(default_factory=dict)
    not_ingested: Mapping[str, Mapping[str, int]] = Field(
        default_factory=dict, validation_alias="not taken in", serialization_alias="not taken in"
    )
    read_up_to: tuple[str, ...] = Field(default=(), exclude_if=not_)


class CutOverReport(PublicationReport):
    days: RangesByTable = Field(default_factory=dict)
    staged_again: RangesByTable = Field(default_factory=dict)
    moved: RangesByTable = Field(default_factory=dict)
    """Days unlike the approved ones."""
    leaves_stale: RangesByTable = Field(default_factory=dict, exclude_if=not_)
    read_up_to: tuple[str, ...] = Field(default=(), exclude_if=not_)


class DownstreamReport(Report):
    """``checked``: number of days; ``rebuilt``: by step."""

    checked: int = 0
    rebuilt: RangesByTable = Field(default_factory=dict)


class ToldReport(Report):
    """``still_due``: reasons by notice."""

    reports: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    still_due: Mapping[str, str] = Field(default_factory=dict)


class ClosedReport(Report):
    closed: tuple[str, ...] = ()
