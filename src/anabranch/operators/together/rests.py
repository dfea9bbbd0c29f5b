"""Members whose operator gives rows that Spark SQL is still to do something with: which rows those are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from anabranch.log.slices import UNFINISHED, index_of
from anabranch.operators.together.selections import Slices


def marked(slices: Iterator[Slices], rests: NDArray[np.int64]) -> Iterator[Slices]:
    """Slices that say of the rows of members with a rest that they are not finished."""
    for index, payload in slices:
        if len(rests):
            said = index_of(index).copy()
            said[np.isin(said[:, 0], rests), 1] = UNFINISHED
            index = said.tobytes()
        yield index, payload
