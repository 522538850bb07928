"""``python -m backfill_assets.cli``: the command ``backfill`` with the running Python."""

from backfill_assets.cli import main

if __name__ == "__main__":
    main()
