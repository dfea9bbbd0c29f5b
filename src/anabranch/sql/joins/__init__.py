"""Joins of streams inside windows, aggregates over them, and arithmetic of such aggregates."""
