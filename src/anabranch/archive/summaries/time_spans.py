"""Spans of time, and which parts of one lie in others or are whole windows."""

from __future__ import annotations

Span = tuple[int, int]
"""Times from the first up to, but not with, the second, in µs."""


def joined(spans: list[Span]) -> list[Span]:
    """Spans in order, those that touch or overlap made one.

    >>> joined([(20, 30), (0, 10), (5, 20), (40, 50)])
    [(0, 30), (40, 50)]
    """
    apart: list[Span] = []
    for start, end in sorted(spans):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        elif start < end:
            apart.append((start, end))
    return apart


def within(span: Span, spans: list[Span]) -> list[Span]:
    """The parts of a span that lie in others.

    >>> within((5, 45), [(0, 30), (40, 50)])
    [(5, 30), (40, 45)]
    """
    cut = [(max(start, span[0]), min(end, span[1])) for start, end in joined(spans)]
    return [(start, end) for start, end in cut if start < end]


def without(span: Span, spans: list[Span]) -> list[Span]:
    """The parts of a span that do not lie in others.

    >>> without((5, 60), [(0, 30), (40, 50)])
    [(30, 40), (50, 60)]
    """
    gaps, at = [], span[0]
    for start, end in within(span, spans):
        gaps.append((at, start))
        at = end
    return [(start, end) for start, end in [*gaps, (at, span[1])] if start < end]


def whole_windows(span: Span, every: int) -> Span:
    """The whole windows inside a span, perhaps none: then the end is not after the start.

    >>> whole_windows((5, 47), 10)
    (10, 40)
    """
    return -(-span[0] // every) * every, span[1] // every * every
