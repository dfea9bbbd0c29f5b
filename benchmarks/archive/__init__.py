"""The figures of archives: layouts, bounds, overload."""
