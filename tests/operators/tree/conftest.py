from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from anabranch.kernels.digests import Digests, digests
from anabranch.kernels.values import Column
from anabranch.operators.tree import changes, runs


@pytest.fixture(params=["as it is", "four values", "one value"])
def hashing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hashes as they are, and such that nearly all of them are the same."""
    values = {"four values": 4, "one value": 1}.get(request.param)

    def few(columns: Sequence[Column], length: int) -> Digests:
        told = digests(columns, length)
        return told if values is None else Digests(*(each % np.uint64(values) * np.uint64(1 << 62) for each in told))

    for module in (changes, runs):
        monkeypatch.setattr(module, "digests", few)
    return str(request.param)
