"""A terminal of any width for commands under test: what they print on it, and what a person answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click import testing


@contextmanager
def terminal(columns: int, *, colour: bool = False) -> Iterator[None]:
    """Commands that :class:`click.testing.CliRunner` runs believe that a terminal is there, for input and output."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing._NamedTextIOWrapper, "isatty", lambda self: True, raising=False)
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("LINES", "40")
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("FORCE_COLOR", raising=False)
        patch.delenv("COLORTERM", raising=False)
        if colour:
            patch.delenv("NO_COLOR", raising=False)
        else:
            patch.setenv("NO_COLOR", "1")
        yield
