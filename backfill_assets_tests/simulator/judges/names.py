"""What is found wrong, by its name: of what the judges of each step say, and of what the judges of histories say."""

from __future__ import annotations

import re

from backfill_assets_tests.simulator.history import History
from backfill_assets_tests.simulator.judges import judged

NAMES = {
    r"both added and removed": "a day that Spark loses",
    r"an active path is added": "a file added twice",
    r"past its fence|after it was withdrawn": "committed after its abort",
    r"is aborted, and stays in": "aborted, and neither put back nor fenced",
    r"committed to \S+ twice|two marks": "applied twice",
    r"undid others'": "lost update",
    r"took back what others wrote": "foreign write undone",
    r"of older .* unseen": "newer result overwritten unseen",
    r"past the lock": "prepared past a lock",
    r"over closed days|was closed while": "a closed day changed",
    r"were withdrawn": "made of withdrawn rows",
    r"on gained rows": "made of other rows than it asked for",
    r"closed against the decision|is done, and withdrawn|decided twice": "ended otherwise than decided",
    r"has no commit of it": "done without its commit",
    r"was announced": "said what never happened",
    r"\bnotices$|due again": "notices that are lost, or come twice",
    r"file \S+ is missing|files are missing|No such file": "a file that is gone",
    r"is torn": "a file that is torn",
    r" count twice": "rows that count twice",
    r" are lost": "lost rows",
    r"acknowledged, and is not done": "acknowledged, and lost",
    r"was refused, and is": "refused, and yet done",
    r"are left open|without end": "never ended",
    r"its inputs make|raw makes": "a report that does not equal its fact",
    r": model ": "rows that nobody published",
    r"pins |sees |the map |pinned ": "readers see another state than was published",
}


def name_of(failure: BaseException) -> str:
    """Of what a judge of steps says; of an error of the package, that it ended in one."""
    said = str(failure)
    if not isinstance(failure, AssertionError | FileNotFoundError):
        return f"ended in {type(failure).__name__}"
    return next((name for sentence, name in NAMES.items() if re.search(sentence, said)), said)


def anomalies_in(history: History) -> dict[str, str]:
    """What libraries of others find in a history, by name, each with its sentence."""
    return {anomaly.name: anomaly.sentence for verdict in judged(history) for anomaly in verdict.anomalies}
