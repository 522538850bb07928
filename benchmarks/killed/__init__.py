"""What readers see of rewrites whose processes are killed, with each tool: ``python -m benchmarks.killed``."""
