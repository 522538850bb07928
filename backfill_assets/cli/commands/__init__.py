"""The commands that change something."""
