"""Work on arrays: NumPy and Arrow in, NumPy and Arrow out, compiled where loops are needed."""
