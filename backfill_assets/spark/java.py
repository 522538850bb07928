from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from backfill_assets.errors import LakehouseUnusable

SUPPORTED = (17, 21)
_LAUNCHER = Path(__file__).parent / "submitted" / "java_home"
_HINT = (
    "Install Java 17 or 21 (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17), "
    "or point JAVA_HOME at one."
)


def java_command() -> Path | None:
    """Like Spark's scripts: ``JAVA_HOME``, else ``PATH``."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    path = shutil.which("java")
    return Path(path) if path else None


def without_incubator() -> dict[str, str]:
    """Spark's scripts then start Java without its incubator module, which prints a warning."""
    java = java_command()
    return {"JAVA_HOME": str(_LAUNCHER), "BACKFILL_JAVA": str(java)} if java else {}


def spark_script(name: str) -> str:
    from pyspark.find_spark_home import _find_spark_home

    return str(Path(_find_spark_home()) / "bin" / name)


def java_version(java: Path) -> int | None:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match.group(1)) if match else None


def require_java() -> int:
    """Raises ``LakehouseUnusable`` unless it is Java 17 or 21."""
    java = java_command()
    version = java_version(java) if java else None
    if java is None or version is None:
        raise LakehouseUnusable(
            "Spark needs Java, and none was found." if java is None else f"{java} does not start.", hint=_HINT
        )
    if version not in SUPPORTED:
        raise LakehouseUnusable(f"Spark needs Java 17 or 21, but {java} is Java {version}.", hint=_HINT)
    return version


if __name__ == "__main__":
    try:
        require_java()
    except LakehouseUnusable as error:
        sys.exit(" ".join(str(error).replace("->", "").split()))
