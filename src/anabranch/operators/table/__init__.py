"""Queries over tables: their rows as they are, and streams that meet them as they were."""
