"""A file is read with the line of everything in it, and what YAML would turn into something else is text."""

from __future__ import annotations

import pytest

from backfill_assets.plan_file.document import FileProblem, read_document


def test_every_value_is_text_and_has_its_line() -> None:
    """YAML would make a date, a truth value, seconds of an hour and a float of these."""
    text = "# why\nday: 2017-03-04\ncountry: no\nat: 12:30:00\nshare: 010\nlist:\n  - 1\n  - 2.50\nmap: {a: null}\n"
    found = read_document(text)
    assert found.problems == []
    assert found.values == {
        "day": "2017-03-04",
        "country": "no",
        "at": "12:30:00",
        "share": "010",
        "list": ["1", "2.50"],
        "map": {"a": "null"},
    }
    assert [found.line_of(place) for place in (("day",), ("list",), ("list", 1), ("map", "a"))] == [2, 6, 8, 9]
    assert found.line_of(("list", 7)) == 6, "what is not there has the line of what it is in"
    assert found.line_of(("missing",)) is None


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' is there twice."),
        ("a: 1\nb: {c: 1, c: 2}\n", 2, "'c' is there twice."),
        ("a: 1\nb:\n", 2, "A key has no value."),
        ("a: []\n", 1, "A key has no value."),
        ("a: 1\nb: !!python/object:os.system ls\n", 2, "Tags such as tag:yaml.org,2002:python/object:os.system"),
        ("a: &x 1\nb: *x\n", 2, "Values are not reused in a plan file."),
        ("- a\n- b\n", 1, "The file is no list of `key: value` lines."),
        ("", 1, "The file is no list of `key: value` lines."),
        ("? [a, b]\n: c\n", 1, "A key is one word."),
        ("a: 1\nb: [1, 2\n", 3, "It is not YAML: expected ',' or ']', but got '<stream end>'."),
        ("a: 1\nb: c: d\n", 2, "It is not YAML: mapping values are not allowed here."),
        ("a: 1\n---\nb: 2\n", 2, "It is not YAML: but found another document."),
        ("a: \x07\n", None, "It is not YAML: "),
        ("a: 1\nb: " + "[" * 400 + "]" * 400, 2, "A plan file has no lists in lists of lists."),
    ],
)
def test_what_is_no_plan_file_is_refused_with_its_line(text: str, line: int | None, message: str) -> None:
    (problem,) = read_document(text).problems
    assert problem.message.startswith(message) and (line is None or problem.line == line)


def test_a_problem_is_shown_as_editors_and_terminals_link_it() -> None:
    assert FileProblem("It is wrong.", "Fix it.", 3).shown("a.yaml") == "a.yaml:3: It is wrong.\n  -> Fix it."
    assert FileProblem("It is wrong.").shown("a.yaml") == "a.yaml: It is wrong."
