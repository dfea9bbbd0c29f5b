"""Letters of columns, beside what Python says of each text; on Spark all characters are compared elsewhere."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.letters import lowered, raised
from tests.sampling import examples

KNOWN = st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x2FFF, exclude_characters="\u0295")
"""What the Unicode of every Python has in common with Spark's."""
TEXTS = st.lists(st.none() | st.text(st.sampled_from("aΑσΣς.'ß \u0301\u00adİıǅﬃ😀") | KNOWN, max_size=8), max_size=8)


@examples(400)
@given(TEXTS, TEXTS)
def test_each_text_is_what_python_makes_of_it(first: list[str | None], second: list[str | None]) -> None:
    whole = [*first, *second]
    chunks = pa.chunked_array([pa.array(first, pa.string()), pa.array(second, pa.string())])
    for texts in (chunks, pa.array([None, *whole], pa.string()).slice(1)):
        assert lowered(texts).to_pylist() == [text and text.lower() for text in whole]
        assert raised(texts).to_pylist() == [text and text.upper() for text in whole]
        assert lowered(texts).type == raised(texts).type == pa.string()


@pytest.mark.parametrize(
    ("text", "small"),
    [
        ("ΑΣ", "ας"),
        ("Σ", "σ"),
        ("ΑΣΑ", "ασα"),
        ("ΑΣ\u0301", "ας\u0301"),
        ("ΑΣ\u0301Α", "ασ\u0301α"),
        ("Α\u0301Σ", "α\u0301ς"),
        ("ΑΣΣ ΣΑΣ", "ασς σας"),
        ("a\u0295Σ", "a\u0295σ"),
        ("aΣ\u0295", "aς\u0295"),
        ("Σ\ua7cb", "σ\u0264"),
        ("\ua7dcΣ", "\u019bς"),
        ("\U00016ea0\U00010d65", "\U00016ebb\U00010d85"),
        ("İ", "i\u0307"),
    ],
)
def test_small_letters(text: str, small: str) -> None:
    assert lowered(pa.array([text])).to_pylist() == [small]
    assert lowered(pa.array(["Σ", text, "ΑΣ"])).to_pylist() == ["σ", small, "ας"]
    assert lowered(pa.scalar(text)).as_py() == small


def test_capitals_of_later_versions_of_unicode() -> None:
    assert raised(pa.array(["\u019b\u0264", "\U00010d70", "ﬃß", "é"])).to_pylist() == [
        "\ua7dc\ua7cb",
        "\U00010d50",
        "FFISS",
        "É",
    ]
