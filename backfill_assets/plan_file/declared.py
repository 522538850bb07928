"""What a plan file may say: its keys, and what each of them takes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from backfill_assets.campaign.breaker import Limits
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import PlanRequest, PlanTerms, Scope
from backfill_assets.plan.waves import Shares
from backfill_assets.text import format_count, format_range, suggest_or_list

DAY = r"\d{4}-\d{2}-\d{2}"
SHARE = r"\d+(\.\d+)?%"
NAME = r"^[\w.@+-]+$"
_MOST_APPROVALS = 9


def refusal(message: str, next_step: str = "", key: str = "") -> PydanticCustomError:
    """What is wrong with a value, and what to do; ``key`` names another key than that of the value."""
    return PydanticCustomError("refused", "{message}", {"message": message, "next_step": next_step, "key": key})


def _checked(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """``parse``, whose errors are collected with those of other values. What is no text is left to the type."""

    def check(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except InvalidRequest as error:
            raise refusal(error.message, error.hint or "") from None

    return check


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _scope(text: str) -> Scope:
    if text not in list(Scope):
        raise InvalidRequest(
            f"{text!r} is no scope.", hint=suggest_or_list(text, [each.value for each in Scope], "Scopes")
        )
    return Scope(text)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise InvalidRequest(f"{text!r} is neither true nor false.", hint="Write true or false.")
    return text == "true"


def _approvals(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST_APPROVALS):
        hint = f"Write a whole number from 1 to {_MOST_APPROVALS}."
        raise InvalidRequest(f"{text!r} is no number of approvals.", hint=hint)
    return int(text)


def _name(text: str) -> str:
    if not re.fullmatch(NAME, text):
        raise InvalidRequest(
            f"{text!r} is no name of a user.", hint="Write it as the operating system or Dagster has it."
        )
    return text


def _recipient(text: str) -> str:
    if "://" in text:
        hint = "Name a person, a team or a channel. Where notices go is the setting BACKFILL_NOTICES."
        raise InvalidRequest(
            "An address is no recipient: a URL in a file that is reviewed may show a secret.", hint=hint
        )
    return _one_line(text)


def _each_once(values: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [value for number, value in enumerate(values) if value in values[:number]]:
        raise refusal(f"{twice[0]!r} is there twice.", "Write it once.")
    return values


Line = Annotated[str, AfterValidator(_one_line)]
Days = Annotated[
    str,
    AfterValidator(_checked(lambda text: format_range(DayRange.parse(text)))),
    WithJsonSchema({"type": "string", "pattern": rf"^{DAY}(\.\.{DAY})?$"}),
]
Expected = Annotated[str, AfterValidator(_checked(lambda text: str(Expectation.parse(text))))]
Wave = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{SHARE}$"})]
Approver = Annotated[str, AfterValidator(_checked(_name)), WithJsonSchema({"type": "string", "pattern": NAME})]
Recipient = Annotated[
    str, AfterValidator(_checked(_recipient)), WithJsonSchema({"type": "string", "pattern": "^(?!.*://).+$"})
]
Share = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^({SHARE}|none)$"})]
Budget = Annotated[str, WithJsonSchema({"type": ["number", "string"], "pattern": r"^(\d+(\.\d+)?|none)$"})]


class PlanFileLimits(BaseModel):
    """Limits that stop the campaign. One that is left out has its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    errors: Share = Field(default="", description="Days that cannot be computed, of all days tried; 5% if left out.")
    gates: Share = Field(default="", description="Days that their gates hold back, of all days tried; 10% if left out.")
    nulls: Share = Field(default="", description="By how much the share of nulls of a column may grow; 1% if left out.")
    deviation: Share = Field(
        default="", description="By how much a sum may differ from the published one; 10% if left out."
    )
    seconds: Budget = Field(default="", description="How long it may take; without a limit if left out.")
    money: Budget = Field(
        default="", description="What it may cost, by BACKFILL_CORE_HOUR_PRICE; without a limit if left out."
    )

    @field_validator("*")
    @classmethod
    def _read(cls, text: str, field: ValidationInfo) -> str:
        """Behind a comma there would be another limit, which its own line does not show."""
        if "," in text:
            raise refusal(f"{text!r} is more than one limit.", "Write each limit on a line of its own.")
        _checked(lambda each: Limits.parse(f"{field.field_name}={each}"))(text)
        return text

    def in_full(self) -> str:
        """All limits in one spelling, also those that have their defaults; empty if none is given."""
        given = ",".join(f"{name}={text}" for name, text in self if text)
        return str(Limits.parse(given)) if given else ""


class PlanFile(BaseModel):
    """A plan of a backfill, as a file that is reviewed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Line = Field(default="", description="What it is, in a few words: notices begin with it.")
    reason: Line = Field(default="", description="Why the days are rebuilt, for reviewers and readers.")
    target: str = Field(description="The table to rebuild.")
    days: Days = Field(description="The days of the table: 2017-03-01..2017-05-29, or one day.")
    version: str = Field(default="", description="The version of the table's logic; the current one if left out.")
    versions: dict[str, str] = Field(
        default_factory=dict, description="The same as a mapping: `TABLE: VERSION`. A plan chooses that of its target."
    )
    scope: Annotated[Scope, BeforeValidator(_checked(_scope))] = Field(
        default=Scope.ONWARDS, description="How much of the pipeline is rebuilt."
    )
    force: Annotated[bool, BeforeValidator(_checked(_truth))] = Field(
        default=False, description="Also rebuild days that are unchanged."
    )
    expectations: tuple[Expected, ...] = Field(
        default=(), description="What is expected of the difference, in the words of `backfill plan --expect`."
    )
    waves: tuple[Wave, ...] = Field(
        default=(), description="The share of the days staged by the end of each wave; 1%, 10%, 50%, 100% if left out."
    )
    limits: PlanFileLimits = Field(default_factory=PlanFileLimits, description="Limits that stop the campaign.")
    approvers: Annotated[tuple[Approver, ...], AfterValidator(_each_once)] = Field(
        default=(), description="The users who may approve it, and no one else."
    )
    approvals: Annotated[
        int,
        BeforeValidator(_checked(_approvals)),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MOST_APPROVALS}),
    ] = Field(default=1, description="How many people have to approve the same difference.")
    notices: Annotated[tuple[Recipient, ...], AfterValidator(_each_once)] = Field(
        default=(),
        description="For whom the notices are: people, teams, channels. BACKFILL_NOTICES says where they are sent.",
    )

    @field_validator("waves")
    @classmethod
    def _ascend(cls, shares: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(_checked(Shares.parse)(",".join(shares))).split(",")) if shares else ()

    @model_validator(mode="after")
    def _agree(self) -> PlanFile:
        if others := sorted(self.versions.keys() - {self.target}):
            hint = "Leave it out: other tables are built by their current version."
            raise refusal(f"A plan chooses the version of its target, not of {others[0]}.", hint, "versions")
        if self.version and self.versions:
            raise refusal("The version is there twice.", "Write version, or versions.", "versions")
        if self.approvers and self.approvals > len(self.approvers):
            needed = format_count(self.approvals, "approval")
            message = f"{needed} cannot come from {format_count(len(self.approvers), 'approver')}."
            raise refusal(message, "List more approvers, or ask for fewer approvals.", "approvals")
        return self

    @property
    def request(self) -> PlanRequest:
        """The question that the plan answers."""
        version = self.version or self.versions.get(self.target, "")
        return PlanRequest(target=self.target, days=self.days, version=version, scope=self.scope, force=self.force)

    @property
    def terms(self) -> PlanTerms:
        """How the plan is to be carried out."""
        return PlanTerms(
            title=self.title,
            reason=self.reason,
            waves=",".join(self.waves),
            limits=self.limits.in_full(),
            approvers=tuple(sorted(self.approvers)),
            approvals=self.approvals,
            notices=tuple(sorted(self.notices)),
        )
