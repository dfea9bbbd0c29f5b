"""docs/functions.md is what the tables of functions say."""

from __future__ import annotations

from anabranch.functions import function_names

from .functions_page import MARK, PATH, written


def test_the_page_has_the_tables() -> None:
    found = PATH.read_text(encoding="utf-8").partition(MARK)
    assert found[1] + found[2] == written(), "write it anew with python -m tests.docs.functions_page"


def test_every_function_is_on_the_page() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert [name for name in function_names() if f"`{name}`" not in text and f"`{name}(" not in text] == []
