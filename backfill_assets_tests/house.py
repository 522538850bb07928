"""``python -m backfill_assets_tests.house``: how the code and its pages are kept, as a part of ``make check``.

Each function yields what is wrong, in words; nothing of it is a question of what the program does.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from backfill_assets_tests import import_picture
from backfill_assets_tests.docs_commands import BY_ANOTHER_TEST, PAGES, ROOT, blocks, commands

PACKAGE, TESTS = ROOT / "backfill_assets", ROOT / "backfill_assets_tests"
ENGINES = ("pyspark", "delta", "dagster", "pandas", "pandera", "ibis", "duckdb")
READERS_PATH = {
    *(
        "start",
        "campaign",
        "timelines",
        "stream",
        "your-own-data",
        "operations",
        "architecture",
        "performance",
        "reliability",
    )
}
MOST = {"README.md": (110, "lines"), "CHANGELOG.md": (40, "lines"), "CONTRIBUTING.md": (600, "words")}
MOST_WORDS, PROSE_COLUMNS = 15_000, 120
_EXEMPT = re.compile(r"\s*(?:\||<|!?\[[^\]]*\]\([^)]*\)$)")
"""Tables, HTML, and a line that is one link or picture."""


# ------------------------------------------------------------------ code


def _modules() -> list[tuple[str, str]]:
    """Each module of the package by its name, with its text."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return [(name, path.read_text()) for name, path in zip(names, paths, strict=True)]


def _decisions() -> set[str]:
    """The modules that the import contract keeps away from every engine."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [each for each in contracts if each["name"] == "What is decided is decided without an engine"]
    return set(found["source_modules"])


def public_classes_of_one_name() -> Iterator[str]:
    """Who reads a name in one place knows what it means in all others."""
    found = defaultdict[str, list[str]](list)
    for module, text in _modules():
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
            found[name].append(module)
    yield from (f"{name} is a class of {', '.join(modules)}" for name, modules in found.items() if len(modules) > 1)


def _is_pure(text: str) -> bool:
    return bool(re.search(r"\bPure\b", text)) and "Pure" in re.findall(r"\w+", ast.get_docstring(ast.parse(text)) or "")


def modules_that_call_themselves_pure() -> Iterator[str]:
    """In ``defs`` it means without effects: Dagster's types are what is computed there."""
    for module, text in _modules():
        if ".defs." not in module and module not in _decisions() and _is_pure(text):
            yield f"{module} calls itself pure, and is not in the import contract"


def pure_modules_that_ask_for_the_time() -> Iterator[str]:
    """They take the moment as an argument: the same arguments, the same decision."""
    for module, text in _modules():
        if re.search(r"^from backfill_assets import .*\bclock\b", text, re.MULTILINE) and _is_pure(text):
            yield f"{module} calls itself pure, and asks for the time"


def decisions_without_a_test_file() -> Iterator[str]:
    """A change of a decision is seen to fail where one looks first."""
    for module in sorted(_decisions()):
        path = Path(*module.split(".")[1:])
        if not (TESTS / path.with_name(f"test_{path.name}.py")).exists():
            yield f"{module} has no test file of its name"


def decisions_that_load_an_engine() -> Iterator[str]:
    """Imported in a new process: not directly, and not through something else."""
    script = f"import importlib, sys; [importlib.import_module(name) for name in {sorted(_decisions())!r}]"
    script += f"; print(*[name for name in {ENGINES!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    yield from (f"what is decided imports {name}" for name in done.stdout.split())


def private_modules_of_dagster() -> Iterator[str]:
    """They change without notice; so one module of ours knows them."""
    users = [name for name, text in _modules() if re.search(r"^\s*(?:from|import) dagster\._", text, re.MULTILINE)]
    if len(users) > 1:
        yield f"Dagster's private modules are imported by {', '.join(users)}"


# ------------------------------------------------------------------ pages


def pages_too_long_to_be_read() -> Iterator[str]:
    """A newcomer reads them to the end; a page more is a page fewer read."""
    for name, (most, unit) in MOST.items():
        text = (ROOT / name).read_text()
        if (count := len(text.splitlines() if unit == "lines" else text.split())) > most:
            yield f"{name} has {count} {unit}, more than {most}"
    pages = [page for page in PAGES if page.parent == ROOT / "docs"]
    if {page.stem for page in pages} != READERS_PATH:
        yield f"docs has other pages than {', '.join(sorted(READERS_PATH))}"
    if (count := sum(len(page.read_text().split()) for page in pages)) > MOST_WORDS:
        yield f"docs has {count} words, more than {MOST_WORDS}"


def settings_that_are_none() -> Iterator[str]:
    """Who sets a variable that nothing reads gets silence."""
    read = set(re.findall(r"BACKFILL_[A-Z_]+", "".join(text for _, text in _modules())))
    for page in PAGES:
        named = set(re.findall(r"BACKFILL_[A-Z_]+", page.read_text()))
        yield from (f"{page.relative_to(ROOT)} names the setting {name}, which nothing reads" for name in named - read)


def links_of_the_readme() -> Iterator[str]:
    """A package index has no files beside it."""
    text = (ROOT / "README.md").read_text()
    yield from (f"README.md links to a file: {link}" for link in re.findall(r"\]\(((?!https?://)[^)]*)", text))
    if set(re.findall(r"`docs/([a-z-]+)\.md`", text)) != READERS_PATH:
        yield "README.md does not name each page of docs"


def links_that_lead_nowhere() -> Iterator[str]:
    """Relative links of all pages."""
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                yield f"{page.name} links to {target}"


def files_that_are_not_there() -> Iterator[str]:
    """Paths below the project in backticks, such as ``rebuild/stage.py``."""
    for page in PAGES:
        for path in re.findall(r"`([a-z_/]+\.py)`", page.read_text()):
            if not any((base / path).exists() for base in (ROOT, PACKAGE, TESTS)):
                yield f"{page.name} names {path}"


def tests_that_are_not_there() -> Iterator[str]:
    """As ``protocol/test_kill.py::test_killed_at_a_step``: without its test, a promise is none."""
    text = "".join(page.read_text() for page in PAGES)
    named = {(TESTS / file, test) for file, test in re.findall(r"`([a-z_/]+\.py)::(test_[a-z_0-9]+)`", text)}
    if len(named) <= 20:
        yield "the pages name next to no tests"
    named |= {(ROOT / file, test) for file, _, test in (each.partition("::") for each in BY_ANOTHER_TEST.values())}
    for path, test in sorted(named):
        if not path.exists() or f"def {test}(" not in path.read_text():
            yield f"there is no test {path.relative_to(ROOT)}::{test}"


def lines_of_prose_that_are_long() -> Iterator[str]:
    """A change of one sentence is a change of few lines. Code is shown as it is typed."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", _blank, page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > PROSE_COLUMNS and not _EXEMPT.match(line):
                yield f"{page.relative_to(ROOT)}:{number} is longer than {PROSE_COLUMNS} columns"


def _blank(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


def tree_of_contributing() -> Iterator[str]:
    """Every line of it exists, and no folder of the package is left out."""
    lines = next(block for block in blocks("text") if block.startswith("backfill_assets/")).splitlines()
    inside = {line.split()[0] for line in lines if line.startswith("  ")}
    for line in lines:
        path = line.split()[0]
        if not ((PACKAGE if path in inside else ROOT) / path).exists():
            yield f"the tree in CONTRIBUTING.md has {path}"
    rooms = {f"{found.parent.name}/" for found in PACKAGE.glob("*/__init__.py")}
    yield from (f"the tree in CONTRIBUTING.md lacks {room}" for room in sorted(rooms - inside))


def picture_of_the_layers() -> Iterator[str]:
    """It is that of the imports."""
    page = import_picture.PAGE.read_text()
    if import_picture.drawn(page) != page or page.count(import_picture.BEGIN) != 1:
        yield "docs/reference/layers.md shows other imports than there are: make picture"


# ------------------------------------------------------------------ targets


def targets_of_make() -> Iterator[str]:
    """Those that pages name are there; ``make help`` lists all that people type, and ``.PHONY`` names them."""
    makefile = (ROOT / "Makefile").read_text()
    shown = {words[0] for words in commands("make")}
    shown |= set(re.findall(r"`make ([a-z-]+)`", "".join(page.read_text() for page in PAGES)))
    there = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    yield from (f"a page names make {target}" for target in sorted(shown - there))
    phony = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[0].split())
    described = set(re.findall(r"^([a-z-]+):[^#\n]*## .", makefile, re.MULTILINE))
    yield from (f"make {target} has no help, or is not phony" for target in sorted(phony ^ described))


def hooks_before_a_commit() -> Iterator[str]:
    """One list of checks, for a person and for a hook."""
    hooks = re.findall(r"^\s+entry: (.+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    recipe = re.findall(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0]
    if hooks != [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]:
        yield ".pre-commit-config.yaml has other commands than make check"


CHECKS: tuple[Callable[[], Iterator[str]], ...] = (
    public_classes_of_one_name,
    modules_that_call_themselves_pure,
    pure_modules_that_ask_for_the_time,
    decisions_without_a_test_file,
    decisions_that_load_an_engine,
    private_modules_of_dagster,
    pages_too_long_to_be_read,
    settings_that_are_none,
    links_of_the_readme,
    links_that_lead_nowhere,
    files_that_are_not_there,
    tests_that_are_not_there,
    lines_of_prose_that_are_long,
    tree_of_contributing,
    picture_of_the_layers,
    targets_of_make,
    hooks_before_a_commit,
)


def main() -> int:
    found = [finding for check in CHECKS for finding in check()]
    print(*found, sep="\n") if found else print(f"{len(CHECKS)} checks of the house: all is kept.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
