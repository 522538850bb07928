"""The folder of a lakehouse's Dagster instance, one for each home.

``python -m backfill_assets.cli.dev.dagster_home`` makes it and prints its path, for ``DAGSTER_HOME``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from backfill_assets import clock
from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.settings import Settings, shipped

REPOSITORY = Path(__file__).resolve().parents[3]
_INSTANCE = "dagster.yaml"
_DEFAULT_FOLDER = re.compile(r"(?<=: )\.data/dagster/?(\S*)")


def dagster_home(settings: Settings) -> Path:
    """Write ``<home>/dagster`` with its copy of ``dagster.yaml``. Raises :class:`LakehouseUnusable`."""
    folder = settings.home / "dagster"
    wanted = _DEFAULT_FOLDER.sub(lambda found: _quoted(folder / found[1]), shipped(_INSTANCE).read_text())
    instance = folder / _INSTANCE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if instance.is_symlink() or not instance.exists() or instance.read_text() != wanted:
            unfinished = folder / f"{_INSTANCE}.{clock.token(4)}"
            unfinished.write_text(wanted)
            unfinished.replace(instance)
    except OSError as error:
        raise LakehouseUnusable(
            f"{folder} cannot be written: {error.strerror}.", hint="Set BACKFILL_HOME to a folder of yours."
        ) from error
    return folder


def _quoted(path: Path) -> str:
    return json.dumps(str(path), ensure_ascii=False)


def main() -> int:
    try:
        print(dagster_home(Settings.from_environment()))
    except BackfillError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
