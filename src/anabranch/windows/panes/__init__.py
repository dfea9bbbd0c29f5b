"""How an axis is cut into panes, and the partial answers that are kept for them."""
