from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.spark.java import require_java, without_incubator


def java_home(folder: Path, banner: str) -> dict[str, str]:
    """A JAVA_HOME whose ``java -version`` prints ``banner``."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


@pytest.mark.parametrize(("banner", "release"), [('openjdk version "17.0.15"', 17), ('openjdk version "21" 2023', 21)])
def test_java_17_and_21_are_taken(tmp_path: Path, banner: str, release: int) -> None:
    """Both are supported by Spark 4.2, and print their version in two shapes."""
    assert require_java(java_home(tmp_path, banner)) == release


@pytest.mark.parametrize(("banner", "said"), [('java version "1.8.0_402"', "is Java 8"), ("no idea", "does not start")])
def test_any_other_java_is_refused_with_what_to_install(tmp_path: Path, banner: str, said: str) -> None:
    """Spark itself would end in a stack trace about class file versions."""
    with pytest.raises(LakehouseUnusable, match=rf"{said}[\s\S]*Install Java 17 or 21"):
        require_java(java_home(tmp_path, banner))


def test_no_java_at_all_is_refused_with_what_to_install(tmp_path: Path) -> None:
    """The first thing that happens to a person on a fresh machine."""
    with pytest.raises(LakehouseUnusable, match=r"none was found[\s\S]*Install Java 17 or 21"):
        require_java({"PATH": str(tmp_path)})


def test_the_module_that_java_warns_of_is_left_out(tmp_path: Path) -> None:
    """Its warning stood in the output of every command. Other options are handed on as they are, blanks and all."""
    java = tmp_path / "real" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    java.chmod(0o755)
    environ = without_incubator({"JAVA_HOME": str(java.parent.parent)})
    options = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "*", "Main"]
    command = [f"{environ['JAVA_HOME']}/bin/java", *options]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    assert told == "-Dx=a b|--add-modules=java.sql||*|Main|"
    assert without_incubator({"PATH": str(tmp_path)}) == {}
