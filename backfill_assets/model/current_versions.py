"""Which version of each step is current: the one that a publication switched to, or else the declared one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.declaration import Step

Switches = Mapping[str, str]
"""By step, the version that a publication made current."""


def with_current(steps: Iterable[Step], switches: Switches) -> tuple[Step, ...]:
    """``steps`` with the versions that are current by ``switches``.

    A step whose version is not declared any more keeps the declared one: what builds it asks
    :func:`require_current` first.
    """
    return tuple(step_with_current(step, switches) for step in steps)


def step_with_current(step: Step, switches: Switches) -> Step:
    version = switches.get(step.name, step.current)
    if version == step.current or not is_declared(step, version):
        return step
    return replace(step, current=version)


def is_declared(step: Step, version: str) -> bool:
    return version in {each.name for each in step.versions}


def gone_version(step: Step, switches: Switches) -> str:
    """The version that a publication made current and that is not declared any more; empty if there is none."""
    version = switches.get(step.name, "")
    return version if version and not is_declared(step, version) else ""


def gone_text(step: Step, version: str) -> tuple[str, str]:
    """What is wrong with a step whose current version is not declared any more, and what to do."""
    hint = f"Declare {version} again, or switch to one that is: {to_switch(step)} --new-days-only"
    return f"{step.name} was switched to {version}, which is not declared any more.", hint


def to_switch(step: Step) -> str:
    """The commands that make the declared version of ``step`` current."""
    return (
        f"backfill timeline create NAME --version {step.name}={step.current}, "
        "then backfill timeline publish NAME --as-current"
    )


def switch_notes(steps: Iterable[Step], switches: Switches) -> list[str]:
    """Which of ``steps``, as they are declared, have another current version by a switch, and what to do."""
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
    """Raise :class:`InvalidRequest` if the current version of ``step`` is not declared any more."""
    if version := gone_version(step, switches):
        message, hint = gone_text(step, version)
        raise InvalidRequest(message, hint=hint)
