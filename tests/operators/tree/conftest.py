from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.values import Column
from anabranch.operators.tree import runs


@pytest.fixture(params=["as it is", "four values", "one value"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hashes as they are, and such that nearly all of them are the same."""
    values = {"four values": 4, "one value": 1}.get(request.param)

    def few(columns: Sequence[Column], length: int) -> NDArray[np.uint64]:
        hashes = hashes_of_rows(columns, length)
        return hashes if values is None else hashes % np.uint64(values) * np.uint64(1 << 62)

    monkeypatch.setattr(runs, "hashes_of_rows", few)
    return str(request.param)
