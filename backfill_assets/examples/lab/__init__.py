"""The five hazards of a backfill beside a live stream, each played without this project and with it, and counted."""
