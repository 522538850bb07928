"""``python -m backfill_assets_tests.mutants [NAME...]``: see :mod:`backfill_assets_tests.mutants.run`."""

import sys

from backfill_assets_tests.mutants.run import main

sys.exit(main(sys.argv[1:]))
