"""MERGE JOIN: streams whose keys agree within a tolerance."""
