"""Benchmarks: each checks its answer, then measures itself beside a named peer in the same run."""
