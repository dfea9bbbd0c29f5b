"""How far off an answer from part of the rows can be: sums by stratum and group, and bounds from them."""
