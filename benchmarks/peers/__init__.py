"""Other engines doing the same joins, each in an environment of its own and run as a program of its own."""
