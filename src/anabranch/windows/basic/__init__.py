"""Basic windows: tuples as they arrive, cut into the pieces that come and go as a whole."""
