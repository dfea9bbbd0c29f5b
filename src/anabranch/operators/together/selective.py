"""How few rows the parts of a member's condition leave, told from the newest rows of its stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import pyarrow as pa

from anabranch.expressions.atoms import Atom
from anabranch.log.offset import End
from anabranch.operators.together.coding import Coding, Numbers, Texts

_ROWS = 4096


class Growing(Protocol):
    """A stream of which it is known from where to where it goes."""

    def end(self) -> End: ...

    def first_logged_row(self) -> int: ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...


def newest(reader: Growing, atoms: Iterable[Atom]) -> pa.Table:
    """The newest rows of a stream, with the columns that atoms speak of."""
    end = reader.end().row
    columns = sorted({atom.of for atom in atoms if not atom.computed})
    return reader.read(max(reader.first_logged_row(), end - _ROWS), end, columns)


def share(atom: Atom, rows: pa.Table) -> float:
    """Of some rows, how many an atom wants."""
    column = rows.column(atom.of).combine_chunks()
    coding: Coding = (Texts if pa.types.is_string(column.type) else Numbers)([atom])
    codes = coding.codes(column)
    wanted = sum(int(np.count_nonzero((low <= codes) & (codes <= high))) for low, high in coding.spans(atom))
    return wanted / max(len(codes), 1)
