"""The command line: `anabranch demo | sql | append | tail | top`."""

from __future__ import annotations

from anabranch.cli.main import main

__all__ = ["main"]
