"""Queries that read archives: alone, since a time, and joined with live rows."""
