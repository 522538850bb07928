"""How a process ends in a test that plays a kill -9 within its own process."""

from __future__ import annotations


class Died(BaseException):
    """A process ends here, and what it held in memory is gone: nothing of the code under test may catch it."""
