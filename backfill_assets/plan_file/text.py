"""A checked plan file in words: for a terminal, a pull request, and programs. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from backfill_assets.plan.records import Plan
from backfill_assets.plan.text import markdown as plan_markdown
from backfill_assets.plan_file.read import FileProblem
from backfill_assets.text import bullets, escape_markdown

_INVALID, _MAY_NOT, _MAY = "is no valid plan file", "may not be carried out", "may be carried out"


def verdict(*, valid: bool, problems: Sequence[FileProblem]) -> str:
    if not valid:
        return _INVALID
    return _MAY_NOT if problems else _MAY


def problem_lines(problems: Sequence[FileProblem]) -> list[str]:
    """A line for each problem, with the line of the file where that is known."""
    return [f"line {each.line}: {_sentence(each)}" if each.line else _sentence(each) for each in problems]


def _sentence(problem: FileProblem) -> str:
    return " ".join(filter(None, (problem.message, problem.next_step)))


def file_markdown(
    path: str, plan: Plan | None, now: datetime | None, problems: Sequence[FileProblem], *, valid: bool
) -> str:
    """For a comment on a pull request: the verdict, what is wrong, and the whole plan."""
    parts = [f"# {escape_markdown(path)}", f"**It {verdict(valid=valid, problems=problems)}.**"]
    if problems:
        parts.append(bullets(problem_lines(problems)))
    if plan is not None:
        parts.append(plan_markdown(plan, now or datetime.now(UTC)))
    return "\n\n".join(parts).rstrip() + "\n"


def plan_json(plan: Plan) -> dict[str, Any]:
    """The plan with its id and what is computed from it."""
    values: dict[str, Any] = {"id": plan.id, "stopped": plan.stopped, **json.loads(plan.to_json())}
    values["cost"] |= {"core_seconds": plan.cost.core_seconds, "money": plan.cost.money}
    return values


def file_json(path: str, plan: Plan | None, problems: Sequence[FileProblem], *, valid: bool) -> dict[str, Any]:
    return {
        "file": path,
        "valid": valid,
        "may_be_carried_out": valid and not problems,
        "problems": [{"line": each.line, "message": each.message, "next_step": each.next_step} for each in problems],
        "plan": None if plan is None else plan_json(plan),
    }
