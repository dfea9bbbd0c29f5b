"""What the rows of a list of members say."""

from __future__ import annotations

ADDED = "added"
STOPPED = "stopped"
STARTED = "started"
HELD = "held"
RELEASED = "released"
FAILED = "failed"
DROPPED = "dropped"
LEAVING = "leaving"
"""It goes on elsewhere: another host will run it, or none; where to is said with it."""
PACED = "paced"
"""How many of its windows it answers; it stays in its place."""

RUNNING = (ADDED, STARTED, HELD, RELEASED)
"""After these a member is run."""
STAYING = (STOPPED, FAILED, LEAVING)
"""After these it stays where it is."""
STANDING = (*RUNNING, *STAYING)
"""After these it has a place in the streams from which it goes on."""
GOING_BACK = (FAILED, HELD)
"""These may say that it is where it was when a micro-batch began, though the others have gone on."""
