"""Rows as they came: the strawman of the paper (§4.1.4), which reads everything at every reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from anabranch.archive.layouts.base import Layout


@dataclass(frozen=True)
class Plain(Layout):
    """One table, in the order of time."""

    name: ClassVar[str] = "plain"
