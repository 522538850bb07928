"""Java's archive of Spark's classes: read, linked and verified once at set-up instead of at every start.

Java calls it class data sharing (JEP 310 and 350). An archive is good for one Java and one class path; Java itself
compares both, down to the size and date of each JAR, and goes without where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from backfill_assets.settings import Settings

_CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
MAKE_IT = "backfill doctor --fix"
"""What to type for an archive: `make setup` tries once, and goes on without."""
_KNOWN = {"spark-defaults.conf", "log4j2.properties", "fairscheduler.xml"}
# Java has words about an archive that does not fit, on standard output, where programs print their JSON.
_SILENT = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"


def archive_file(settings: Settings) -> Path:
    """Where the archive is, if there is one; beside the JARs, which are part of what it holds."""
    return settings.jars.parent / "class-archive" / "spark.jsa"


def empty_folder(settings: Settings) -> Path:
    """Made by set-up with the archive: Java archives nothing from a class path that has a folder of files on it."""
    return archive_file(settings).parent / "empty"


def start_folder(settings: Settings) -> Path:
    """What ``SPARK_CONF_DIR`` has to be, which Spark puts on the class path: :func:`empty_folder`, or the profile's.

    A profile with files of its own (Hadoop's, say) needs them on the class path, and starts without an archive.
    """
    return empty_folder(settings) if _handed_over(settings) else _profile(settings)


def start_options(settings: Settings, options: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """``options`` plus what a start from :func:`start_folder` needs: the archive, and settings that files gave Spark.

    ``jars`` go on the class path itself, in front: Java archives what is there and not what Spark loads later.
    """
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
    """The Java option that makes a JVM write an archive to ``file``, of what it has loaded, when it ends."""
    return f'"-XX:ArchiveClassesAtExit={file}"'


def _handed_over(settings: Settings) -> bool:
    """Whether we pass all of the profile as settings, so that Spark needs no folder."""
    return empty_folder(settings).is_dir() and {file.name for file in _profile(settings).iterdir()} <= _KNOWN


def _profile(settings: Settings) -> Path:
    return settings.spark_conf / settings.spark_profile
