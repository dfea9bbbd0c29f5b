"""The examples: short, listed, and they print what they say, all over one Spark session."""

from __future__ import annotations

import ast
import json
import runpy
import textwrap
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def said_by(program: Path) -> str:
    """What the program's docstring says that it prints."""
    docstring = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    return textwrap.dedent(docstring.partition("\nPrints:\n")[2]).rstrip() + "\n"


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def kept_output(cell: dict[str, Any]) -> str:
    assert all(output["output_type"] == "stream" for output in cell["outputs"])
    return "".join(line for output in cell["outputs"] for line in output["text"])


@pytest.fixture
def warm_spark(spark: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of all tests, whose workers need no starting for each example anew."""
    monkeypatch.setenv("ANABRANCH_WARM_UP", "0")


@pytest.mark.usefixtures("warm_spark")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program_prints_what_it_says(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out == said_by(program)


@pytest.mark.usefixtures("warm_spark")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.name)
def test_notebook_keeps_what_its_cells_print(notebook: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
        assert capsys.readouterr().out == kept_output(cell), f"cell {number}"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda p: p.name)
def test_notebook_is_one_that_readers_open(notebook: Path) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    cells = content["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    of_code = {"cell_type", "execution_count", "id", "metadata", "outputs", "source"}
    wanted = {"code": of_code, "markdown": {"cell_type", "id", "metadata", "source"}}
    assert [cell["id"] for cell in cells if set(cell) != wanted[cell["cell_type"]]] == []
    counts = [cell["execution_count"] for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "run it from top to bottom before it is kept"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_program_is_short(program: Path) -> None:
    assert len(program.read_text(encoding="utf-8").splitlines()) < 60


def test_every_example_is_listed() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(PROGRAMS) >= 6
    assert len(NOTEBOOKS) >= 1
    assert [file.name for file in [*PROGRAMS, *NOTEBOOKS] if f"]({file.name})" not in index] == []
