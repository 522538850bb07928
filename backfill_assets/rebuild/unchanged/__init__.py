"""Days that a rebuild leaves as they are published: which they are, and how they were judged."""
