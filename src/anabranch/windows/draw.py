"""Text drawings of lists, trees, buckets and windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.windows.basic.basic import BasicWindows
    from anabranch.windows.index.base import SetIndex


def draw_list(labels: Iterable[str]) -> str:
    """A linked list.

    >>> draw_list(["4:1", "12:3"])
    '→ 4:1 → 12:3'
    """
    return "".join(f" → {label}" for label in labels).lstrip() or "→"


def draw_buckets(buckets: Sequence[Iterable[str]]) -> str:
    """A list per bucket.

    >>> print(draw_buckets([["4:1", "12:3"], []]))
    0 → 4:1 → 12:3
    1
    """
    width = len(str(len(buckets) - 1))
    return "\n".join(f"{number:>{width}} {draw_list(labels)}".rstrip(" →") for number, labels in enumerate(buckets))


def draw_tree(root: int, children: Callable[[int], Sequence[int]], label: Callable[[int], str]) -> str:
    """A binary tree with its root on top; node 0 is none.

    >>> print(draw_tree(2, lambda n: (1, 3) if n == 2 else (0, 0), str))
     2
    ┌┴┐
    1 3
    """
    lines: list[tuple[list[str], list[str]]] = []
    column = 0

    def put(line: list[str], at: int, text: str) -> None:
        line.extend(" " * (at + len(text) - len(line)))
        line[at : at + len(text)] = text

    def place(node: int, depth: int) -> int:
        """Draw the subtree in the next free columns and give the middle of its root."""
        nonlocal column
        while len(lines) <= depth:
            lines.append(([], []))
        left, right = children(node)
        arms = [place(left, depth + 1)] if left else []
        text = label(node)
        at, column = column, column + len(text)
        middle = at + len(text) // 2
        arms += [place(right, depth + 1)] if right else []
        above, names = lines[depth][1], lines[depth][0]
        put(names, at, text)
        if left:
            put(above, arms[0], "┌" + "─" * (middle - arms[0] - 1))
        if right:
            put(above, middle + 1, "─" * (arms[-1] - middle - 1) + "┐")
        if arms:
            put(above, middle, "┴" if len(arms) == 2 else "┘" if left else "└")
        return middle

    if root:
        place(root, 0)
    return "\n".join("".join(line).rstrip() for names, arms in lines for line in (names, arms) if line)


def draw_window(basic: BasicWindows, index: SetIndex, text: Callable[[int], str], group: int) -> str:
    """A line for each basic window, oldest first, and the index below."""
    lines = []
    for window in basic.attached():
        when = "" if window.time is None else f" from {window.time}"
        if window.nodes is None:
            lines.append(f"{window.number}{when} in the file")
            continue
        names = [text(code) for code in index.key(window.nodes).tolist()]
        if window.counts is not None:
            names = [f"{name}:{count}" for name, count in zip(names, window.counts.tolist(), strict=True)]
        lines.append(f"{window.number}{when} {draw_list(names)}")
    lines.append(f"{len(basic.waiting())} tuples not yet visible")
    return "\n".join([*lines, f"{index.name}-INDEX", index.draw(text, group)])
