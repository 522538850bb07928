"""Pins the logic of every version in ``source_pins.json``: ``make pins`` adds new versions.

A pinned version that has changed is left as it is, unless it is named: ``--renew bronze_sales@v1``, or ``--renew all``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.model.logic import logic_of

FOLLOWED = ("backfill_assets.examples.datasets", "backfill_assets.model")
"""A project records its own code. What the package does with a declaration is of its release: the pins have both."""
PINS = Path(__file__).with_name("source_pins.json")


def read_pins() -> dict[str, str]:
    """The logic of each version as it is pinned."""
    found: dict[str, str] = json.loads(PINS.read_text())
    return found


def current_pins() -> dict[str, str]:
    """The logic of each declared version as it is."""
    return {
        f"{step.name}@{version.name}": logic_of(version, FOLLOWED).fingerprint
        for step in CATALOG.steps
        for version in step.versions
    }


def renew_pins(pins: Mapping[str, str], now: Mapping[str, str], renew: Set[str]) -> dict[str, str]:
    """``pins`` with what is new in ``now``, and with those of ``renew``, which may have changed or be gone."""
    wanted = set(pins.keys() | now.keys()) if "all" in renew else set(renew) | (now.keys() - pins.keys())
    kept = {name: pin for name, pin in pins.items() if name not in wanted}
    return dict(sorted({**kept, **{name: now[name] for name in wanted & now.keys()}}.items()))


def differences(pins: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What a person does about versions that are new, changed or gone; no text if there are none."""
    new = _lines(now.keys() - pins.keys())
    changed = _lines({name for name in now.keys() & pins.keys() if now[name] != pins[name]})
    gone = _lines(pins.keys() - now.keys())
    found = []
    if new:
        found.append(f"New: `make pins` pins\n{new}")
    if changed:
        found.append(
            "Changed: leave the version as it was, add a new version beside it and make that the current one. Only if "
            f'it computes the same rows, renew its pin by `make pins RENEW="NAME ..."`:\n{changed}'
        )
    if gone:
        found.append(
            "Gone: put the version back, its days could not be computed again; or take out its pin by "
            f'`make pins RENEW="NAME ..."`:\n{gone}'
        )
    return "\n".join(found)


def _lines(names: Set[str]) -> str:
    return "\n".join(f"  {name}" for name in sorted(names))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pins; 1 if some differ that were not to be renewed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renew", nargs="*", default=[], metavar="TABLE@VERSION")
    now = current_pins()
    pins = renew_pins(read_pins(), now, set(parser.parse_args(arguments).renew))
    PINS.write_text(json.dumps(pins, indent=2) + "\n")
    left = differences(pins, now)
    print(left or f"{len(pins)} versions are pinned in {PINS.name}.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
