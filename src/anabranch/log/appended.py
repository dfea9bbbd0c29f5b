"""What an append gives back: a number, and what it is a number of."""

from __future__ import annotations


class Appended(int):
    """The number of a stream's next row once rows were appended; `Database.wait` waits until they are taken in.

    >>> Appended(7, "cars") + 1, Appended(7, "cars").stream
    (8, 'cars')
    """

    stream: str

    def __new__(cls, row: int, stream: str) -> Appended:
        made = super().__new__(cls, row)
        made.stream = stream
        return made

    def __reduce__(self) -> tuple[type[Appended], tuple[int, str]]:
        return Appended, (int(self), self.stream)
