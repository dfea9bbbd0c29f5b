"""What the rows of a list of members say."""

from __future__ import annotations

ADDED = "added"
DROPPED = "dropped"
FAILED = "failed"
