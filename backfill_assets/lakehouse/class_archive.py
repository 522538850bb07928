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
_KNOWN = {"spark-defaults.conf", "log4j2.properties", "fairscheduler.xml"}
# Java has words about an archive that does not fit, on standard output, where programs print their JSON.
_SILENT = "-Xshare:auto -Xlog:disable -Xlog:all=error:stderr"


def archive_file(settings: Settings) -> Path:
    """Where the archive is, if there is one; beside the JARs, which are part of what it holds."""
    return settings.jars.parent / "class-archive" / "spark.jsa"


def start_folder(settings: Settings) -> Path:
    """The folder for ``SPARK_CONF_DIR``: an empty one, or the profile's if that has more in it than we hand over.

    Spark puts this folder on the class path, and Java archives nothing from a class path with a folder of files on it.
    A profile with files of its own (Hadoop's, say) needs them there, and starts without an archive.
    """
    profile = settings.spark_conf / settings.spark_profile
    if _has_files_of_its_own(profile):
        return profile
    empty = archive_file(settings).parent / "empty"
    empty.mkdir(parents=True, exist_ok=True)
    return empty


def start_options(settings: Settings, options: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """``options`` with all that a start from :func:`start_folder` needs: what the profile's files said, the archive.

    ``jars`` go on the class path itself, in front: Java archives what is there and not what Spark loads later.
    """
    profile = settings.spark_conf / settings.spark_profile
    if _has_files_of_its_own(profile):
        return dict(options)
    archive = archive_file(settings)
    java = [f'{_SILENT} "-XX:SharedArchiveFile={archive}"'] if archive.exists() else []
    java += [f'"-Dlog4j2.configurationFile={(profile / "log4j2.properties").as_uri()}"', options.get(JAVA_OPTIONS, "")]
    class_path = [*(str(jar) for jar in jars), options.get(_CLASS_PATH, "")]
    found = {**options, JAVA_OPTIONS: " ".join(filter(None, java)), _CLASS_PATH: ":".join(filter(None, class_path))}
    if (pools := profile / "fairscheduler.xml").exists():
        found.setdefault("spark.scheduler.allocation.file", str(pools))
    return found


def recording_option(file: Path) -> str:
    """The Java option that makes a JVM write an archive to ``file``, of what it has loaded, when it ends."""
    return f'"-XX:ArchiveClassesAtExit={file}"'


def _has_files_of_its_own(profile: Path) -> bool:
    return not {file.name for file in profile.iterdir()} <= _KNOWN
