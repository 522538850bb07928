"""Applies each patch of this folder to a copy of the tree and runs the tests that its header names: they must fail.

A patch begins with ``# breaks: <the rule>`` and one ``# must fail: <pytest node id>`` per test. A mutant survives when
one of these tests passes; a patch that no longer applies, or names a test that is not there, is an error as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
TREE = HERE.parent.parent
COPIED = (
    "backfill_assets",
    "backfill_assets_tests",
    "spark_conf",
    "pyproject.toml",
    "dagster.yaml",
    ".cache/jars",
    ".cache/broker",
)
AT_ONCE = 2
_GIT = shutil.which("git") or "git"
SECONDS = 600
MUTANT_SECONDS = 120
"""Without a mutant the tests of each take some seconds."""
_HEADER = re.compile(r"^# (breaks|must fail): (.+)$", re.MULTILINE)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?(?:\[.*?\])?)(?: - .*)?$", re.MULTILINE)
"""The name of a test, whose parameters may have spaces."""
_NOTHING_RAN = (4, 5)
_INTERRUPTED = (2, 3)


@dataclass(frozen=True)
class Mutant:
    """A patch, the rule that it breaks, and the tests that must notice."""

    name: str
    patch: Path
    breaks: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    outcome: str
    seconds: float

    @property
    def good(self) -> bool:
        return self.outcome == "killed"


def read(patch: Path) -> Mutant:
    """A mutant from its file; one without a rule or without tests raises."""
    found = _HEADER.findall(patch.read_text())
    rules = [value for key, value in found if key == "breaks"]
    tests = tuple(value for key, value in found if key == "must fail")
    if len(rules) != 1 or not tests:
        raise SystemExit(f"{patch.name} needs one '# breaks:' line and at least one '# must fail:' line.")
    return Mutant(patch.stem, patch, rules[0], tests)


def chosen(names: Sequence[str]) -> list[Mutant]:
    mutants = {patch.stem: read(patch) for patch in sorted(HERE.glob("*.patch"))}
    if unknown := [name for name in names if name not in mutants]:
        raise SystemExit(f"There is no mutant {unknown[0]}; there are: {', '.join(mutants)}.")
    return [mutants[name] for name in names or mutants]


def judge(mutant: Mutant) -> Verdict:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"mutant-{mutant.name}-") as folder:
        outcome = _outcome(mutant, _copied(Path(folder)))
    return Verdict(mutant, outcome, time.monotonic() - started)


def _copied(folder: Path) -> Path:
    for name in COPIED:
        source = TREE / name
        if name.startswith(".") and source.exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, folder / name)
        elif source.exists():
            shutil.copy(source, folder / name)
    return folder


def _outcome(mutant: Mutant, folder: Path) -> str:
    command = [_GIT, "apply", "--whitespace=nowarn", str(mutant.patch)]
    applied = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if applied.returncode:
        return f"PATCH DOES NOT APPLY: {applied.stderr.strip()}"
    code, output = run_tests(folder, mutant.tests, MUTANT_SECONDS)
    if code in _NOTHING_RAN + _INTERRUPTED:
        return f"TESTS DID NOT RUN: {output.strip().splitlines()[-1]}"
    passed = unnoticed(mutant.tests, output)
    return f"SURVIVED: {', '.join(passed)}" if passed else "killed"


def run_tests(folder: Path, tests: Iterable[str], seconds: float = SECONDS) -> tuple[int, str]:
    """Exit code and output of pytest; one that hangs counts as having failed everything."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *sorted(set(tests))]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, "\n".join(f"FAILED {test}" for test in tests)
    return done.returncode, done.stdout + done.stderr


def unnoticed(tests: Iterable[str], output: str) -> list[str]:
    """Those of ``tests`` (a file, a test, or one of its parameters) of which none failed."""
    failed = _FAILED.findall(output)
    return [
        test for test in tests if not any(each == test or each.startswith((f"{test}[", f"{test}::")) for each in failed)
    ]


def baseline(mutants: Iterable[Mutant]) -> list[str]:
    """The named tests that fail without any patch: they would show nothing."""
    with tempfile.TemporaryDirectory(prefix="mutants-none-") as folder:
        code, output = run_tests(_copied(Path(folder)), [test for mutant in mutants for test in mutant.tests])
    found = _FAILED.findall(output)
    return found if code == 0 or found else [output.strip().splitlines()[-1]]


def main(names: Sequence[str]) -> int:
    """Exit code 0 when every chosen mutant is killed."""
    mutants = chosen(names)
    print(f"{len(mutants)} mutants; first their tests without any of them ...", flush=True)
    if failing := baseline(mutants):
        print("These fail (or do not run) on the tree as it is:\n  " + "\n  ".join(failing))
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = []
        for verdict in pool.map(judge, mutants):
            verdicts.append(verdict)
            print(f"{verdict.mutant.name:44} {verdict.seconds:5.1f} s  {verdict.outcome}", flush=True)
    bad = [verdict for verdict in verdicts if not verdict.good]
    print(f"{len(verdicts) - len(bad)} of {len(verdicts)} mutants killed.")
    for verdict in bad:
        print(f"  {verdict.mutant.name} breaks: {verdict.mutant.breaks}\n    {verdict.outcome}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
