"""One patch per invariant and per rule of the protocol, each of which breaks it: every one must make a test fail."""
