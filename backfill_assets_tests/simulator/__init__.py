"""One simulated lakehouse: what is done in it, what was seen of that, and who judges it."""
