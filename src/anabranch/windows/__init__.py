"""Basic windows: how an axis is cut into panes, and the partial answers kept for them."""
