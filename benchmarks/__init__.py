"""Measures Agent Kernel beside a raw floor and its peers, in one run: `python -m benchmarks` (or `make bench`)."""
