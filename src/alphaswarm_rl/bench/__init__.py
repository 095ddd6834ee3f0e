"""Benchmarks that people can run: `rl bench`."""
