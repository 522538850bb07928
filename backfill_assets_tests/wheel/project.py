"""A folder in which commands of a fresh environment are typed: one with the wheel, and nothing of the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill_assets.settings import cache_folder
from backfill_assets_tests.wheel.build import build_wheel

UV = cache_folder() / "bootstrap" / "bin" / "uv"
_OF_INSTALLERS = ("PIP_", "SSL_", "UV_")
"""Where packages are fetched from is a matter of the machine."""


@dataclass(frozen=True)
class Project:
    """Commands of ``bin``, typed in ``folder``."""

    folder: Path
    bin: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, *words: str, exit_code: int = 0) -> str:
        """The command ``words``; its standard output."""
        kept = (*("JAVA_HOME", "SPARK_SUBMIT_OPTS"), *(name for name in os.environ if name.startswith(_OF_INSTALLERS)))
        passed = {name: os.environ[name] for name in kept if name in os.environ}
        passed |= {"PATH": f"{self.bin}:{os.environ['PATH']}", "VIRTUAL_ENV": str(self.bin.parent)}
        environment = {**passed, "HOME": str(self.folder / "home"), "BACKFILL_JARS": str(cache_folder() / "jars")}
        done = subprocess.run(
            [shutil.which(words[0], path=passed["PATH"]) or words[0], *words[1:]],
            cwd=self.folder,
            env=environment | dict(self.variables),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == exit_code, (words, done.stdout[-4000:], done.stderr[-4000:])
        return done.stdout

    def backfill(self, *words: str) -> Any:
        return json.loads(self("backfill", *words, "--json"))


def environment_with_the_wheel(place: Path) -> Path:
    """A virtual environment below ``place``; its folder of commands."""
    wheel = build_wheel(place)
    for words in (("venv", "--quiet", str(place / "venv")), ("pip", "install", "--quiet", str(wheel))):
        environment = {**os.environ, "VIRTUAL_ENV": str(place / "venv"), "UV_PYTHON_DOWNLOADS": "never"}
        done = subprocess.run([str(UV), *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return place / "venv" / "bin"
