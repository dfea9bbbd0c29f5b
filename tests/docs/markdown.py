"""Pages of the documentation, cut into what the tests look at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind its fence, its text, and the line it begins on."""

    words: tuple[str, ...]
    text: str
    line: int


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def links(text: str) -> list[str]:
    """The targets of links to files and places of this repository, as they are written."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(text))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def language_pages() -> dict[str, str]:
    """The pages of the language, by name, in the order in which their index links to them: so their examples run."""
    files = [link for link in links(page("language/README.md")) if re.fullmatch(r"\w+\.md", link)]
    return {f"language/{file}": page(f"language/{file}") for file in files}


def blocks(text: str) -> Iterator[Block]:
    opened: tuple[int, list[str]] | None = None
    words: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if opened is None and line.startswith("```"):
            opened, words = (number + 1, []), tuple(line[3:].split())
        elif opened is not None and line.rstrip() == "```":
            yield Block(words, "\n".join(opened[1]) + "\n", opened[0])
            opened = None
        elif opened is not None:
            opened[1].append(line)
    assert opened is None, f"the block on line {opened[0] if opened else 0} is not closed"


def prose(text: str) -> str:
    """The page without its blocks and without code between backticks."""
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]+`", "", without_blocks)


def sections(text: str, level: int) -> dict[str, str]:
    """The text below each heading of a level, up to the next heading of that level or above."""
    mark = "#" * level
    parts = re.split(rf"^(?=#{{1,{level}}} )", text, flags=re.MULTILINE)
    found = (part.partition("\n") for part in parts if part.startswith(f"{mark} "))
    return {heading.removeprefix(mark).strip(): below for heading, _, below in found}


def first_cells(text: str) -> list[str]:
    """What stands in backticks in the first column of all tables, row by row."""
    rows = re.findall(r"^\| ([^|]*) \|", prose_tables(text), flags=re.MULTILINE)
    return [name for cell in rows for name in re.findall(r"`([^`]+)`", cell)]


def prose_tables(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.startswith("|"))


def anchor(heading: str) -> str:
    """How a heading is linked to."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(text: str) -> set[str]:
    without_blocks = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return {anchor(h) for h in re.findall(r"^#+ (.*)$", without_blocks, flags=re.MULTILINE)}
