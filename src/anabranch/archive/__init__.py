"""Archives: the past of streams on disk, read in full or reduced, with bounds on what that costs in accuracy."""
