"""Windowed queries: aggregates, rows, and sets of two windows."""
