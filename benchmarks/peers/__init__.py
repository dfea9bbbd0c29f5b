"""Other engines doing the same, each in an environment of its own and run as a program of its own."""
