"""Each step's current version: switched to, else declared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Step

Switches = Mapping[str, str]


def with_current(steps: Iterable[Step], switches: Switches) -> tuple[Step, ...]:
    """Without the switched version, the declared one: :func:`require_current` refuses it."""
    return tuple(step_with_current(step, switches) for step in steps)


def step_with_current(step: Step, switches: Switches) -> Step:
    version = switches.get(step.name, step.current)
    if version == step.current or not is_declared(step, version):
        return step
    return replace(step, current=version)


def is_declared(step: Step, version: str) -> bool:
    return version in {each.name for each in step.versions}


def gone_version(step: Step, switches: Switches) -> str:
    version = switches.get(step.name, "")
    return version if version and not is_declared(step, version) else ""


def gone_text(step: Step, version: str) -> tuple[str, str]:
    hint = f"Declare {version} again, or switch to one that is: {to_switch(step)} --new-days-only"
    return f"{step.name} was switched to {version}, which is not declared any more.", hint


def to_switch(step: Step) -> str:
    return (
        f"backfill timeline create NAME --version {step.name}={step.current}, "
        "then backfill timeline publish NAME --as-current"
    )


def switch_notes(steps: Iterable[Step], switches: Switches) -> list[str]:
    notes = []
    for step in steps:
        version = switches.get(step.name, step.current)
        if gone_version(step, switches):
            notes.append(" ".join(gone_text(step, version)))
        elif version != step.current:
            notes.append(
                f"{step.name}: {version} is current, by a switch; {step.current} is declared and not current. "
                f"To switch: {to_switch(step)}"
            )
    return notes


def require_current(step: Step, switches: Switches) -> None:
    """Raises :class:`InvalidRequest` for a version no longer declared."""
    if version := gone_version(step, switches):
        message, hint = gone_text(step, version)
        raise InvalidRequest(message, hint=hint)
