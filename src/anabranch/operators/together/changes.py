"""What the rows of a list of members say."""

from __future__ import annotations

ADDED = "added"
STOPPED = "stopped"
STARTED = "started"
FAILED = "failed"
DROPPED = "dropped"

RUNNING = (ADDED, STARTED)
"""After these a member is run."""
STANDING = (*RUNNING, STOPPED)
"""After these it has a place in the streams from which it goes on."""
