from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from backfill_assets.errors import LakehouseUnusable
from backfill_assets.spark.java import require_java, without_incubator


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The JAVA_HOME of the test."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def install(home: Path, what_it_does: str) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{what_it_does}\n")
    java.chmod(0o755)


@pytest.mark.parametrize(("banner", "release"), [('openjdk version "17.0.15"', 17), ('openjdk version "21" 2023', 21)])
def test_java_17_and_21_are_taken(home: Path, banner: str, release: int) -> None:
    """Both are supported by Spark 4.2, and print their version in two shapes."""
    install(home, f"echo '{banner}' >&2")
    assert require_java() == release


@pytest.mark.parametrize(("banner", "said"), [('java version "1.8.0_402"', "is Java 8"), ("no idea", "does not start")])
def test_any_other_java_is_refused_with_what_to_install(home: Path, banner: str, said: str) -> None:
    """Spark itself would end in a stack trace about class file versions."""
    install(home, f"echo '{banner}' >&2")
    with pytest.raises(LakehouseUnusable, match=rf"{said}[\s\S]*Install Java 17 or 21"):
        require_java()


@pytest.mark.usefixtures("no_java")
def test_no_java_at_all_is_refused_with_what_to_install() -> None:
    """The first thing that happens to a person on a fresh machine."""
    assert without_incubator() == {}
    with pytest.raises(LakehouseUnusable, match=r"none was found[\s\S]*Install Java 17 or 21"):
        require_java()


def test_the_module_that_java_warns_of_is_left_out(home: Path) -> None:
    """Its warning stood in the output of every command. Other options are handed on as they are, blanks and all."""
    install(home, """printf '%s|' "$@" """)
    environ = without_incubator()
    options = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "*", "Main"]
    command = [f"{environ['JAVA_HOME']}/bin/java", *options]
    told = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    assert told == "-Dx=a b|--add-modules=java.sql||*|Main|"
