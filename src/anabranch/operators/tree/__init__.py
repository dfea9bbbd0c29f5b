"""Questions of any shape, answered by what changes: see docs/design/2026-11-19-a-question-is-a-tree.md."""
