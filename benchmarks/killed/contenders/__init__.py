"""One module for each of those who are compared; each runs in an interpreter of its own."""
