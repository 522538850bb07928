"""Plan files: YAML checked by pydantic, and the plan each would make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from backfill_assets.campaign.approval import missing_approvers
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, InvalidRequest, UnknownVersion
from backfill_assets.limits import Limits
from backfill_assets.model.catalog import Catalog
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import plan_and_keep, plan_as_of_now
from backfill_assets.plan.records import Plan, PlanRequest, PlanTerms, Scope
from backfill_assets.plan.waves import Shares
from backfill_assets.rebuild.outcome import Person
from backfill_assets.settings import Settings
from backfill_assets.text import format_count, format_range, suggest_or_list

_DAY = r"\d{4}-\d{2}-\d{2}"
_SHARE = r"\d+(\.\d+)?%"
_MOST_APPROVALS = 9


class InvalidPlanFile(InvalidRequest):
    def __init__(self, path: Path, problems: Collection[BackfillError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{path}: {each}" for each in self.problems))


# ------------------------------------------------------------------ what a file may say


def _refusal(message: str, next_step: str = "") -> PydanticCustomError:
    return PydanticCustomError("refused", "{message}", {"message": message, "next_step": next_step})


def _checked(parse: Callable[[Any], Any]) -> AfterValidator:
    """Refusals of ``parse`` as pydantic's errors, which are collected."""

    def check(value: Any) -> Any:
        try:
            return parse(value)
        except InvalidRequest as error:
            raise _refusal(error.message, error.hint or "") from None

    return AfterValidator(check)


def _recipient(text: str) -> str:
    if "://" in text:
        raise _refusal(
            "An address is no recipient: a URL in a file that is reviewed may show a secret.",
            "Name a person, a team or a channel. Where notices go is the setting BACKFILL_NOTICES.",
        )
    return text


def _ascending(shares: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(Shares.parse(",".join(shares))).split(",")) if shares else ()


Line = Annotated[str, AfterValidator(lambda text: " ".join(text.split()))]
Days = Annotated[
    str,
    _checked(lambda text: format_range(DayRange.parse(text))),
    WithJsonSchema({"type": "string", "pattern": rf"^{_DAY}(\.\.{_DAY})?$"}),
]
Expected = Annotated[str, _checked(lambda text: str(Expectation.parse(text)))]
Wave = Annotated[str, Field(pattern=f"^{_SHARE}$")]
Approver = Annotated[str, Field(pattern=r"^[\w.@+-]+$")]
Recipient = Annotated[Line, AfterValidator(_recipient), WithJsonSchema({"type": "string", "pattern": "^(?!.*://).+$"})]
Share = Annotated[str, Field(pattern=f"^({_SHARE}|none)$")]
_BUDGET = r"^(\d+(\.\d+)?|none)$"
Budget = Annotated[str, Field(pattern=_BUDGET), WithJsonSchema({"type": ["number", "string"], "pattern": _BUDGET})]


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

    def in_full(self) -> str:
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
    scope: Scope = Field(default=Scope.ONWARDS, description="How much of the pipeline is rebuilt.")
    where: str = Field(
        default="", description="Rebuild only these rows of the days, as in `store_id in (3, 7)`, by their own version."
    )
    force: bool = Field(default=False, description="Also rebuild days that are unchanged.")
    expectations: tuple[Expected, ...] = Field(
        default=(), description="What is expected of the difference, in the words of `backfill plan --expect`."
    )
    newest_first: bool = Field(
        default=False, description="Compute the newest days first, as far as days that they look back to allow."
    )
    waves: Annotated[tuple[Wave, ...], _checked(_ascending)] = Field(
        default=(), description="The share of the days staged by the end of each wave; 1%, 10%, 50%, 100% if left out."
    )
    limits: PlanFileLimits = Field(default=PlanFileLimits(), description="Limits that stop the campaign.")
    approvers: tuple[Approver, ...] = Field(default=(), description="The users who may approve it, and no one else.")
    approvals: int = Field(
        default=1, ge=1, le=_MOST_APPROVALS, description="How many people have to approve the same difference."
    )
    notices: tuple[Recipient, ...] = Field(
        default=(),
        description="For whom the notices are: people, teams, channels. BACKFILL_NOTICES says where they are sent.",
    )

    @model_validator(mode="after")
    def _enough_approvers(self) -> PlanFile:
        if self.approvers and self.approvals > len(set(self.approvers)):
            needed, listed = (
                format_count(self.approvals, "approval"),
                format_count(len(set(self.approvers)), "approver"),
            )
            raise _refusal(
                f"approvals: {needed} cannot come from {listed}.", "List more approvers, or ask for fewer approvals."
            )
        return self

    @property
    def request(self) -> PlanRequest:
        terms = PlanTerms(
            title=self.title,
            reason=self.reason,
            waves=",".join(self.waves),
            limits=self.limits.in_full(),
            approvers=tuple(sorted(set(self.approvers))),
            approvals=self.approvals,
            notices=tuple(sorted(set(self.notices))),
        )
        own = self.model_dump(include={"target", "days", "version", "scope", "force", "where", "newest_first"})
        return PlanRequest(**own, expectations=tuple(map(Expectation.parse, self.expectations)), terms=terms)


# ------------------------------------------------------------------ reading


class _TextLoader(yaml.BaseLoader):  # type: ignore[misc]  # PyYAML has no types
    """Loads all values as text: YAML would read Norway's ``no`` as false. Repeated keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for number, (key, _) in enumerate(node.value):
            if key.value in keys[:number]:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def read_plan_file(path: Path) -> PlanFile:
    """Raises :class:`InvalidPlanFile` with all problems, each with its key and line."""
    try:
        loader = _TextLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        return PlanFile.model_validate({} if node is None else loader.construct_document(node))
    except OSError as error:
        problems = [InvalidRequest(f"The file cannot be read: {error.strerror}.")]
    except UnicodeDecodeError:
        problems = [InvalidRequest("The file cannot be read: it is no text in UTF-8.")]
    except (yaml.YAMLError, RecursionError) as error:
        problems = [_broken(error)]
    except ValidationError as error:
        found = [(_line(node, each["loc"]), each) for each in error.errors()]
        problems = [_problem(each, line) for line, each in sorted(found, key=lambda pair: pair[0])]
    raise InvalidPlanFile(path, problems)


def _broken(error: Exception) -> InvalidRequest:
    mark, what = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error).splitlines()[0]
    where = f" (line {mark.line + 1})" if mark else ""
    return InvalidRequest(f"It is not YAML: {what}{where}.", hint="Write each key once, and quote a text with : or #.")


def _line(node: yaml.Node | None, place: Iterable[str | int]) -> int:
    line = 0
    for part in place:
        found = None
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = (node.value[part], node.value[part])
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _problem(error: ErrorDetails, line: int) -> InvalidRequest:
    place, context = error["loc"], error.get("ctx", {})
    message, next_step = error["msg"], context.get("next_step", "")
    if error["type"] == "extra_forbidden":
        known = PlanFileLimits if place[0] == "limits" else PlanFile
        message, next_step = "There is no such key", suggest_or_list(str(place[-1]), list(known.model_fields), "Keys")
    where = ".".join(map(str, place)) + f" (line {line})" * bool(line)
    return InvalidRequest(f"{where}: {message}".removeprefix(": "), hint=next_step or None)


# ------------------------------------------------------------------ what would come of it

MAY, MAY_NOT, INVALID = 0, 1, 2
_ENDINGS = {".yaml", ".yml"}


@dataclass(frozen=True)
class CheckedPlanFile:
    path: str
    plan: Plan | None = None
    planned_at: datetime | None = None
    problems: tuple[BackfillError, ...] = ()
    valid: bool = True

    @property
    def exit_code(self) -> int:
        if not self.valid:
            return INVALID
        return MAY_NOT if self.problems else MAY


def plan_files(place: Path) -> list[Path]:
    """Raises :class:`InvalidRequest` for a folder without plan files."""
    if not place.is_dir():
        return [place]
    found = sorted(each for each in place.iterdir() if each.suffix in _ENDINGS and each.is_file())
    if not found:
        raise InvalidRequest(f"There is no plan file in {place}.", hint="Their names end with .yaml or .yml.")
    return found


def plan_file(settings: Settings, catalog: Catalog, path: Path, by: Person, *, keep: bool) -> CheckedPlanFile:
    """Writes only with ``keep``. Problems are returned, not raised."""
    try:
        asked = read_plan_file(path).request
    except InvalidPlanFile as error:
        return CheckedPlanFile(str(path), problems=error.problems, valid=False)
    try:
        plan, now = plan_and_keep(settings, catalog, asked, by) if keep else plan_as_of_now(settings, catalog, asked)
    except BackfillError as error:
        return CheckedPlanFile(str(path), problems=(error,), valid=not isinstance(error, UnknownVersion))
    return CheckedPlanFile(str(path), plan, now, tuple(problems_of(settings, plan, by)))


def problems_of(settings: Settings, plan: Plan, by: Person) -> list[BackfillError]:
    stops: list[BackfillError] = [
        InvalidRequest(each.message, hint=each.next_step or None) for each in plan.findings if each.severity == "stops"
    ]
    terms = plan.terms
    if reason := missing_approvers(settings.approval_by, by, terms.approvers, terms.approvals):
        stops.append(
            InvalidRequest(reason, hint=f"List others under approvers. BACKFILL_APPROVAL_BY is {settings.approval_by}.")
        )
    return stops
