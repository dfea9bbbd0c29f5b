"""How much of the long tails is tested: part of them by a fixed seed, or all of them with fresh seeds.

`make test` must be quick enough to be run, so where a test has hundreds of cases it plays some, chosen by a fixed
seed: the same commit gets the same verdict twice. `make test-all` sets ANABRANCH_TESTS=all, and plays every case;
`make quick` sets it to quick, and plays one of each group.
"""

from __future__ import annotations

import os
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

_ASKED = os.environ.get("ANABRANCH_TESTS", "")
ALL = _ASKED == "all"
QUICK = _ASKED == "quick"
os.environ.setdefault("ANABRANCH_SEED", str(random.SystemRandom().randrange(1 << 31) if ALL else 2026))
SEED = int(os.environ["ANABRANCH_SEED"])
"""Of everything that is drawn at random, in this process and in those that share its tests; a run's header tells it."""

ROUNDS = 8 if ALL else 2
"""Of a test that kills processes at seeded moments."""
_FEWER = 10 if QUICK else 4
"""One of so many examples is tried unless all are, ten at least."""
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "tests",
    deadline=None,  # a busy machine must not fail a test
    derandomize=not ALL,
    database=None,
    max_examples=100 if ALL else 100 // _FEWER,
    suppress_health_check=_QUIET,
    print_blob=ALL,
)
settings.load_profile("tests")


def examples(count: int, **more: Any) -> settings:
    """Settings of a property test that tries so many examples where everything is tested."""
    return settings(max_examples=count if ALL else max(count // _FEWER, min(count, 10)), **more)


def sampled(cases: Iterable[T], most: int, key: str, group: Callable[[T], object] = lambda case: None) -> list[T]:
    """At most so many cases of each group, in their order; `key`, which tests differ in, says which.

    >>> sampled(range(100), 3, "a") == sampled(range(100), 3, "a")
    True
    """
    if ALL:
        return list(cases)
    drawn = list(enumerate(cases))
    groups: dict[object, list[int]] = defaultdict(list)
    for number, case in drawn:
        groups[group(case)].append(number)
    most = 1 if QUICK else most
    chance = random.Random(zlib.crc32(key.encode()) ^ SEED)
    kept = {number for numbers in groups.values() for number in chance.sample(numbers, min(most, len(numbers)))}
    return [case for number, case in drawn if number in kept]
