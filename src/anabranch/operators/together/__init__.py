"""Many standing queries over the same streams, run as one: one scan, one micro-batch, one log of answers."""
