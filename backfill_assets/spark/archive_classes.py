"""``python -m backfill_assets.spark.archive_classes``, a part of set-up: makes the archive of Spark's classes, for
quicker starts.

Spark builds a day, and its JVM records loaded classes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.settings import Settings
from backfill_assets.spark import archived_day
from backfill_assets.spark.class_archive import JAVA_OPTIONS, MAKE_IT, archive_file, empty_folder, recording_option
from backfill_assets.spark.session import profile

PATIENCE_SECONDS = 300


def archive_classes(settings: Settings) -> Path | None:
    """Returns None if this Java makes none. Raises :class:`subprocess.TimeoutExpired` on a slow or busy machine."""
    file = archive_file(settings)
    empty_folder(settings).mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="backfill-classes-") as folder:
        home = Path(folder)
        made = home / "spark.jsa"
        archived_day.land(Settings.at(home).landing)
        _run_a_day(home, _recording_profiles(settings, home / "spark_conf", made), settings.jars)
        if not made.exists():
            return None
        shutil.copyfile(made, file.with_suffix(".tmp"))
    return file.with_suffix(".tmp").replace(file)


def _recording_profiles(settings: Settings, folder: Path, made: Path) -> Path:
    """Only the first compiler: faster once, and archives have no compiled code."""
    shutil.copytree(settings.spark_conf, folder)
    java = profile(replace(settings, spark_profile="local")).get(JAVA_OPTIONS, "")
    with (folder / "local" / "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"\n{JAVA_OPTIONS} {java} -XX:TieredStopAtLevel=1 {recording_option(made)}\n")
    return folder


def _run_a_day(home: Path, spark_conf: Path, jars: Path) -> None:
    """Waits for the JVM, whose output stays open until it has written."""
    ours = ("BACKFILL_", "SPARK_REMOTE")
    elsewhere = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    paths = {"BACKFILL_HOME": home, "BACKFILL_JARS": jars, "BACKFILL_SPARK_CONF": spark_conf}
    command = [sys.executable, "-m", "backfill_assets.cli", "run", "+report_lines", "--days", str(archived_day.DAY)]
    environment = elsewhere | {name: str(path) for name, path in paths.items()}
    environment["BACKFILL_DATASETS"] = archived_day.__name__
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    if done.returncode != 0:
        raise LakehouseUnusable(f"The day for it could not be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def main() -> int:
    """Without an archive all is well; a Spark that cannot build is an error."""
    try:
        made = archive_classes(Settings.from_environment())
    except subprocess.TimeoutExpired:
        print(f"Archive of Spark's classes: none, its day was not built within {PATIENCE_SECONDS} s.")
        print(f"Spark starts slower. To make it when the machine has time: {MAKE_IT}")
        return 0
    except BackfillError as error:
        print(error, file=sys.stderr)
        return 1
    size = f"{made.stat().st_size / 1e6:.0f} MB in {made}" if made else "this Java makes none; Spark starts slower"
    print(f"Archive of Spark's classes: {size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
