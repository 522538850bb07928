"""The publication log: which publication holds each day, and the versions that belong together."""
