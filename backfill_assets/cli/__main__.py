"""``python -m backfill_assets.cli``: the command ``backfill`` with the Python that is running."""

from backfill_assets.cli import main

if __name__ == "__main__":
    main()
