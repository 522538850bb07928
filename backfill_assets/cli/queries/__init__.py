"""The commands that read."""
