"""Thousands of standing queries over one stream."""
