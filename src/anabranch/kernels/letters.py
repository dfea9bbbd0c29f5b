"""Capital and small letters of whole columns, by Unicode 17 as Spark's ICU has it, in no language in particular.

What is ASCII is left to Arrow. Of the rest each character is looked up once, however often it stands there: Python
knows most of them, those of later versions of Unicode are said here. One letter looks at those around it: a Σ at the
end of a word becomes ς.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Characters = NDArray[np.uint32]
Numbers = NDArray[np.int64]
Texts = Any
"""A pyarrow StringScalar, Array or ChunkedArray."""

_SIGMA, _FINAL_SIGMA = 0x3A3, "ς"
_LATER = {
    **{capital: capital + 1 for capital in (0x1C89, 0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{capital: capital + 0x20 for capital in range(0x10D50, 0x10D66)},
    **{capital: capital + 0x1B for capital in range(0x16EA0, 0x16EB9)},
    0xA7CB: 0x264,
    0xA7DC: 0x19B,
}
"""Capitals of Unicode 15 to 17, and their small letters."""
_LATER_SMALL = {small: capital for capital, small in _LATER.items()}
_CASED, _PASSED_OVER, _NEITHER = 1, 2, 0
_KINDS = {
    _CASED: "1C89-1C8A A7CB-A7CF A7D2 A7D4 A7DA-A7DC 10D50-10D65 10D70-10D85 16EA0-16EB8 16EBB-16ED3 1DF25-1DF2A",
    _PASSED_OVER: (
        "897 ECE 1ACF-1ADD 1AE0-1AEB A7F1 10D4E 10D69-10D6D 10D6F 10EC5 10EFA-10EFF 11241 113BB-113C0 113CE 113D0 "
        "113D2 113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11F00-11F01 11F36-11F3A 11F40 11F42 11F5A 13439-13440 "
        "13447-13455 1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16FF2-16FF3 1E030-1E06D 1E08F 1E4EB-1E4EF "
        "1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E6FF"
    ),
    _NEITHER: "295 1171E",
}
"""Characters that are of another kind than the oldest Python knows: letters with case, and marks and the like that
stand between a Σ and what it looks at."""


def lowered(texts: Texts) -> Texts:
    """Small letters.

    >>> lowered(pa.array(["ÄRGER", "ΟΔΥΣΣΕΥΣ", None, "A"])).to_pylist()
    ['ärger', 'οδυσσευς', None, 'a']
    """
    return _changed(texts, pc.ascii_lower, _small)


def raised(texts: Texts) -> Texts:
    """Capitals.

    >>> raised(pa.array(["straße", None, "a"])).to_pylist()
    ['STRASSE', None, 'A']
    """
    return _changed(texts, pc.ascii_upper, _capital)


@lru_cache(maxsize=1 << 16)
def _small(character: int) -> str:
    later = _LATER.get(character)
    return chr(character).lower() if later is None else chr(later)


@lru_cache(maxsize=1 << 16)
def _capital(character: int) -> str:
    later = _LATER_SMALL.get(character)
    return chr(character).upper() if later is None else chr(later)


def _changed(texts: Texts, ascii_kernel: Callable[..., pa.Array], of: Callable[[int], str]) -> Texts:
    if isinstance(texts, pa.Scalar):
        return _changed(pa.array([texts.as_py()], texts.type), ascii_kernel, of)[0]
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([_changed(chunk, ascii_kernel, of) for chunk in texts.chunks], texts.type)
    plain = pc.string_is_ascii(texts)
    changed = ascii_kernel(texts)
    if pc.all(plain, min_count=0).as_py():
        return changed
    beyond = pc.fill_null(pc.invert(plain), False)
    return pc.replace_with_mask(changed, beyond, _by_character(texts.filter(beyond), of))


def _by_character(texts: pa.Array, of: Callable[[int], str]) -> pa.Array:
    """Texts, none of them NULL, with what becomes of each of their characters."""
    large = texts.cast(pa.large_string())
    places = np.frombuffer(large.buffers()[1], np.int64)[large.offset : large.offset + len(large) + 1]
    whole = large.buffers()[2][int(places[0]) : int(places[-1])].to_pybytes().decode()
    characters = np.frombuffer(whole.encode("utf-32-le"), np.uint32)
    ends = np.cumsum(pc.utf8_length(texts).to_numpy().astype(np.int64))
    different, which = np.unique(characters, return_inverse=True)
    become = [of(int(character)) for character in different]
    if of is _small and _SIGMA in different:
        which[_final_sigmas(characters, different, which, ends)] = len(become)
        become.append(_FINAL_SIGMA)
    written = [text.encode() for text in become]
    lengths = np.array([len(text) for text in written], np.int64)
    bytes_of_each = lengths[which]
    places = np.concatenate([[0], np.cumsum(bytes_of_each)])
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    # byte by byte: where it is in the table of what characters become
    source = np.repeat(begins[which] - places[:-1], bytes_of_each) + np.arange(places[-1])
    data = np.frombuffer(b"".join(written), np.uint8)[source]
    offsets = places[np.concatenate([[0], ends])]
    answer = pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))
    return answer.cast(texts.type)


def _final_sigmas(characters: Characters, different: Characters, which: Numbers, ends: Numbers) -> Numbers:
    """The places of Σ with a letter before them, and none behind, but for what is passed over, in their text."""
    kinds = np.array([_kind(int(character)) for character in different])[which]
    text = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    seen = np.flatnonzero(kinds != _PASSED_OVER)
    sigmas = np.flatnonzero(characters == _SIGMA)
    at = np.searchsorted(seen, sigmas)  # a Σ has case itself: it is among those that are seen
    before = np.where(at > 0, seen[at - 1], -1)
    behind = np.where(at + 1 < len(seen), seen[np.minimum(at + 1, len(seen) - 1)], -1)

    def has_letter(places: Numbers) -> NDArray[np.bool_]:
        there = (places >= 0) & (text[places] == text[sigmas])
        return np.asarray(there & (kinds[places] == _CASED))

    return sigmas[has_letter(before) & ~has_letter(behind)]


@lru_cache(maxsize=1 << 16)
def _kind(character: int) -> int:
    """Python tells by what it makes of a Σ behind."""
    for kind, ranges in _RANGES.items():
        if any(low <= character <= high for low, high in ranges):
            return kind
    if f"{chr(character)}Σ".lower().endswith(_FINAL_SIGMA):
        return _CASED
    return _PASSED_OVER if f"a{chr(character)}Σ".lower().endswith(_FINAL_SIGMA) else _NEITHER


def _ranges(text: str) -> list[tuple[int, int]]:
    pairs = (part.partition("-") for part in text.split())
    return [(int(low, 16), int(high or low, 16)) for low, _, high in pairs]


_RANGES = {kind: _ranges(text) for kind, text in _KINDS.items()}
