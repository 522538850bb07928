"""Java's archive of Spark's classes (class data sharing, JEP 310 and 350).

It fits one Java and class path, by size and date of JARs; others start without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from backfill_assets.settings import Settings

_CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
MAKE_IT = "backfill doctor --fix"
_KNOWN = {"spark-defaults.conf", "log4j2.properties", "fairscheduler.xml"}
# Java reports an archive that does not fit on standard output, where programs print their JSON.
_SILENT = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"


def archive_file(settings: Settings) -> Path:
    return settings.jars.parent / "class-archive" / "spark.jsa"


def empty_folder(settings: Settings) -> Path:
    """Java archives nothing if the class path has a folder with files."""
    return archive_file(settings).parent / "empty"


def start_folder(settings: Settings) -> Path:
    """For ``SPARK_CONF_DIR``, in the class path. A profile with other files (Hadoop's, say) needs its own, and starts
    without an archive.
    """
    return empty_folder(settings) if _handed_over(settings) else _profile(settings)


def start_options(settings: Settings, options: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """What Spark otherwise reads from files. ``jars`` go in front: Java archives nothing added later."""
    if not _handed_over(settings):
        return dict(options)
    archive, profile = archive_file(settings), _profile(settings)
    java = [f'{_SILENT} "-XX:SharedArchiveFile={archive}"'] if archive.exists() else []
    java += [f'"-Dlog4j2.configurationFile={(profile / "log4j2.properties").as_uri()}"', options.get(JAVA_OPTIONS, "")]
    class_path = [*(str(jar) for jar in jars), options.get(_CLASS_PATH, "")]
    all_options = {
        **options,
        JAVA_OPTIONS: " ".join(filter(None, java)),
        _CLASS_PATH: ":".join(filter(None, class_path)),
    }
    if (pools := profile / "fairscheduler.xml").exists():
        all_options.setdefault("spark.scheduler.allocation.file", str(pools))
    return all_options


def recording_option(file: Path) -> str:
    return f'"-XX:ArchiveClassesAtExit={file}"'


def _handed_over(settings: Settings) -> bool:
    return empty_folder(settings).is_dir() and {file.name for file in _profile(settings).iterdir()} <= _KNOWN


def _profile(settings: Settings) -> Path:
    return settings.spark_conf / settings.spark_profile
