"""A mutant whose patch no longer applies proves nothing: it is noticed here, and not only when all of them run."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from backfill_assets_tests.mutants.run import HERE, TREE, chosen

_FILE = re.compile(r"^--- a/(\S+)\n\+\+\+ .*\n((?:(?!^--- ).*\n?)*)", re.MULTILINE)


@cache
def _text(path: str) -> str:
    return (TREE / path).read_text()


def _misses(patch: Path) -> list[str]:
    """The files in which a part of ``patch`` does not find the lines that it changes, in their order."""
    missed = []
    for path, parts in _FILE.findall(patch.read_text()):
        at, text = 0, _text(path)
        for part in re.split(r"^@@.*\n", parts, flags=re.MULTILINE)[1:]:
            lines = [line[1:] for line in part.splitlines() if line[:1] in ("-", " ", "")]
            at = text.find("\n".join(lines), at) if at >= 0 else at
        missed += [path] * (at < 0)
    return missed


def test_every_patch_applies() -> None:
    """Code that moved takes its mutants with it."""
    assert len(mutants := chosen([])) > 200
    assert {each.name: missed for each in mutants if (missed := _misses(each.patch))} == {}
    assert all(_FILE.search(each.patch.read_text()) for each in mutants)


def test_the_tests_that_must_fail_are_there() -> None:
    """A test that was moved or renamed takes its mutants with it."""
    named = [(each.name, *test.split("::", 1)) for each in chosen([]) for test in each.tests]
    gone = {
        mutant: test
        for mutant, path, test in named
        if f"def {test.partition('[')[0].rpartition('::')[2]}(" not in _text(path)
    }
    assert gone == {}


def test_a_patch_of_other_code_is_noticed(tmp_path: Path) -> None:
    """Also where only a line beside the change is another one."""
    patch = next(iter(HERE.glob("*.patch")))
    lines = patch.read_text().splitlines(keepends=True)
    beside = max(number for number, line in enumerate(lines) if line.startswith(" ") and line.strip())
    (tmp_path / "other.patch").write_text("".join([*lines[:beside], " another line\n", *lines[beside + 1 :]]))
    assert not _misses(patch) and len(_misses(tmp_path / "other.patch")) == 1
