"""How many examples a generated test tries: few in each run, and ``EXAMPLES`` times as many if that is set.

Each run draws other examples, so that more of them are seen with time; ``make generated`` draws many at once.
"""

from __future__ import annotations

import os

TIMES = int(os.environ.get("EXAMPLES") or 1)


def drawn(few: int) -> int:
    return few * TIMES
