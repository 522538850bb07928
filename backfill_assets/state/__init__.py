"""What is published, read from the logs: pinned, so that several tables belong together."""
