"""The documentation names everything there is, nothing that is not, and its examples are true."""

from __future__ import annotations

import argparse
import ast
import doctest
import functools
import importlib
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import anabranch
import anabranch.testing
from anabranch.connectors import CONNECTORS, Connector
from anabranch.database import Database
from anabranch.errors import AnabranchError
from anabranch.log import feed, order
from anabranch.queries import Query
from anabranch.result import Result
from anabranch.schema import TYPES
from anabranch.settings import SETTINGS
from anabranch.sql import STATEMENTS
from anabranch.sql import parse as parse_sql
from anabranch.testing.slt import SPARKLESS_WAYS, parse, play_file
from anabranch.testing.sparkless import NeedsSpark, SparklessDatabase

from .markdown import (
    DOCS,
    ROOT,
    Block,
    anchor,
    anchors,
    blocks,
    first_cells,
    language_pages,
    links,
    page,
    sections,
)

cli = importlib.import_module("anabranch.cli.main")  # the package has a function of that name
SOURCES = ROOT / "src" / "anabranch"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md"), *DOCS.rglob("*.md")])
LANGUAGE = language_pages()
ERROR_NAME = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def squeezed(text: str) -> str:
    return " ".join(text.split())


def public(cls: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(cls) if not name.startswith("_")]


# -- everything there is, and nothing that is not ------------------------------------------------


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.name)
def test_statement_has_a_section_with_its_syntax_and_an_example(statement: Any) -> None:
    found = [block for text in LANGUAGE.values() for block in blocks(sections(text, 2).get(statement.name, ""))]
    assert squeezed(statement.syntax) in [squeezed(b.text) for b in found if b.words == ("text",)]
    assert any(b.words == ("sql",) for b in found)


def test_index_of_the_language_has_every_page_and_every_statement() -> None:
    index = page("language/README.md")
    assert {f"language/{file.name}" for file in (DOCS / "language").glob("*.md")} == {"language/README.md", *LANGUAGE}
    where = {heading: name for name, text in LANGUAGE.items() for heading in sections(text, 2)}
    expected = [
        f"| [{s.name}]({where[s.name].removeprefix('language/')}#{anchor(s.name)}) | {s.help} |" for s in STATEMENTS
    ]
    rows = [line for line in sections(index, 2)["Statements"].splitlines() if line.startswith("| [")]
    assert rows == expected


def test_no_two_pages_of_the_language_have_a_section_of_one_name() -> None:
    headings = [heading for text in LANGUAGE.values() for heading in sections(text, 2)]
    assert sorted(headings) == sorted(set(headings))


def test_types_are_those_of_the_language() -> None:
    named = first_cells(page("language/types.md"))
    assert [t for t in TYPES if t not in named] == []


def test_settings_are_listed_with_their_defaults_and_meanings() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `([^`]*)` \| (.*) \|$", page("settings.md"), flags=re.MULTILINE)
    assert rows == [(s.name, str(s.default), s.help) for s in SETTINGS]


def subcommands() -> dict[str, argparse.ArgumentParser]:
    actions = [a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(actions[0].choices)


@pytest.mark.parametrize("connector", [each for each in CONNECTORS.values() if each.said], ids=lambda each: each.name)
def test_connectors_are_documented_with_their_options(connector: Connector) -> None:
    lines = page("language/streams.md").splitlines()
    row = next(line for line in lines if line.startswith(f"| `FROM {connector.name}` |"))
    table = page(f"{connector.name}.md")
    for option in connector.options:
        assert f"`{option.name}`" in row
        assert f"| `{option.name}` | {option.help} |" in table


@pytest.mark.parametrize("command", [c.name for c in cli.COMMANDS])
def test_command_is_documented_with_its_options(command: str) -> None:
    text = page("cli.md")
    below, above = sections(text, 2)[f"anabranch {command}"], text.split("\n## ")[0]
    for action in subcommands()[command]._actions:
        words = action.option_strings or [str(action.metavar or action.dest)]
        for word in words:
            assert re.search(rf"`{re.escape(word)}[` ]", below + above), f"{command}: {word} is not documented"


def test_documented_options_exist() -> None:
    known = {o for p in [cli.parser(), *subcommands().values()] for a in p._actions for o in a.option_strings}
    assert [o for o in re.findall(r"`(-{1,2}[a-z]+)[` ]", page("cli.md")) if o not in known] == []
    assert {h.removeprefix("anabranch ") for h in sections(page("cli.md"), 2) if h.startswith("anabranch ")} == set(
        subcommands()
    )


def test_exit_codes_are_documented() -> None:
    table = sections(page("cli.md"), 2)["Exit codes"]
    codes = re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)
    assert sorted(map(int, codes)) == sorted({0, cli.FAILED, cli.USAGE, cli.BROKEN_PIPE, cli.INTERRUPTED})


@pytest.mark.slow
def test_environment_variables_are_documented() -> None:
    asked = {
        str(call.args[0].value)
        for module in SOURCES.rglob("*.py")
        for call in calls(module)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "get"
        and ast.unparse(call.func.value) in ("os.environ", "env", "environment")
        and isinstance(call.args[0], ast.Constant)
    }
    assert "ANABRANCH_DB" in asked
    assert asked - set(first_cells(page("cli.md"))) - {"HOME"} == set()


@pytest.mark.parametrize("cls", [Database, Query, Result])
def test_public_methods_are_documented(cls: type) -> None:
    text = page("python.md")
    assert [name for name in public(cls) if not re.search(rf"`(?:\w+\.)?{name}[`(]", text)] == []


def test_public_names_are_documented() -> None:
    text = page("python.md")
    names = [*anabranch.__all__, *anabranch.testing.__all__]
    assert [name for name in names if f"`{name}`" not in text] == []


@functools.cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def calls(module: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(parsed(module)) if isinstance(node, ast.Call) and node.args)


def raised_names(module: Path) -> set[str]:
    """The names of errors a module can raise: first arguments of …Error(…), error_at(…), select.error(…) and such."""
    constants = {
        target.id: node.value.value
        for node in parsed(module).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = set()
    for call in calls(module):
        function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if not (function.lower().endswith("error") or function in ("error_at", "error_here")):
            continue
        first = call.args[0]
        name = constants.get(first.id) if isinstance(first, ast.Name) else getattr(first, "value", None)
        if isinstance(name, str) and ERROR_NAME.fullmatch(name):
            found.add(name)
    return found


@pytest.mark.slow
def test_errors_are_documented_and_exist() -> None:
    raised = set().union(*(raised_names(module) for module in SOURCES.rglob("*.py")))
    assert {"AGGREGATE_UNBOUNDED", "SYNTAX_ERROR", "TYPE_MISMATCH", "WORKER_DID_NOT_START"} <= raised
    raised |= {order.LATE, order.FUTURE, order.NULL, feed.NOT_KNOWN, feed.NO_KEY}
    documented = [name for name in first_cells(page("errors.md")) if ERROR_NAME.fullmatch(name)]
    assert sorted(documented) == sorted(set(documented)), "a name is there twice"
    assert raised - set(documented) == set(), "not documented"
    assert set(documented) - raised == set(), "documented, and nothing raises it"


@pytest.mark.parametrize("name", [*LANGUAGE, "python.md", "cli.md", "settings.md"])
def test_errors_that_pages_mention_exist(name: str) -> None:
    known = set(first_cells(page("errors.md")))
    variables = {*first_cells(page("cli.md")), *(f"ANABRANCH_{s.name.upper()}" for s in SETTINGS)}
    mentioned = {n for n in re.findall(r"`([A-Z][A-Z_0-9]+_[A-Z0-9_]+)`", page(name)) if ERROR_NAME.fullmatch(n)}
    assert mentioned - known - variables == set()


# -- links and names of files -----------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_point_somewhere(path: Path) -> None:
    missing = []
    for link in links(path.read_text(encoding="utf-8")):
        file, _, place = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (place and place not in anchors(target.read_text(encoding="utf-8"))):
            missing.append(link)
    assert missing == []


def pages_linked_from(path: Path) -> Iterator[Path]:
    """A link to a folder is one to all pages in it."""
    files = [link.partition("#")[0] for link in links(path.read_text(encoding="utf-8"))]
    for target in [(path.parent / file).resolve() for file in files if file]:
        if target.is_dir():
            yield from target.glob("*.md")
        elif target.suffix == ".md":
            yield target


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    ahead = {ROOT / "README.md"}
    while ahead:
        reached |= ahead
        ahead = {linked for path in ahead for linked in pages_linked_from(path)} - reached
    assert [str(path.relative_to(ROOT)) for path in PAGES if path not in reached] == []


@pytest.mark.parametrize("path", [ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("life_of_*.md"))], ids=lambda p: p.name)
def test_guides_name_files_that_exist(path: Path) -> None:
    named = re.findall(r"`((?:src|tests|docs|benchmarks)/[\w./]+)`", path.read_text(encoding="utf-8"))
    assert len(named) >= 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_map_names_every_folder_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert [name for name in named if not (SOURCES / name).exists()] == []
    folders = {f"{f.name}/" for f in SOURCES.iterdir() if (f / "__init__.py").exists()}
    assert folders - set(named) == set()


def test_map_describes_files_that_exist() -> None:
    rows = re.findall(
        r"^\| `([\w/]+)/` \| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = [f"{folder}/{file}" for folder, text in rows for file in re.findall(r"`([\w/]+\.py)`", text)]
    assert len(named) >= 10
    assert [name for name in named if not (SOURCES / name).exists()] == []


# -- examples -----------------------------------------------------------------------------------------


def test_every_block_is_of_a_known_kind() -> None:
    """A mistyped fence would silently take an example out of the tests."""
    known = {("text",), ("text", "output"), ("sql",), ("slt",), ("pycon",), ("python",), ("console",)}
    found = [(name, b) for name in (*LANGUAGE, "python.md", "cli.md") for b in blocks(page(name))]
    wrong = [f"{name}:{b.line} {b.words}" for name, b in found if b.words not in known and not expected_error(b)]
    assert wrong == []


def expected_error(block: Block) -> str | None:
    if len(block.words) == 2 and block.words[0] == "sql" and block.words[1].startswith("error="):
        return block.words[1].removeprefix("error=")
    return None


@pytest.mark.slow
def test_sql_examples_of_the_language_do_what_its_pages_say(tmp_path: Path) -> None:
    """In one database, page by page: examples build on those before."""
    last = ""
    ran = 0
    (tmp_path / "products.csv").write_text("id,name,price\n1,tea,3.5\n2,rum,12.0\n")
    with SparklessDatabase(tmp_path / "db", settings={"table_directories": str(tmp_path)}) as db:
        for name, block in ((name, block) for name, text in LANGUAGE.items() for block in blocks(text)):
            place = f"{name}:{block.line}"
            if wanted := expected_error(block):
                assert failure(db, block.text) == wanted, place
            elif block.words == ("sql",):
                statements = parse_sql(block.text)
                assert statements, place
                for statement in statements:
                    last = output(db, statement.source)
                ran += 1
            elif block.words == ("text", "output"):
                assert last == block.text.rstrip("\n"), place
    assert ran >= len(STATEMENTS)


def output(db: Database, statement: str) -> str:
    """What a statement that gives a plan gives; what needs Spark is left out."""
    try:
        result = db.sql(statement)
    except NeedsSpark:
        return ""
    return "\n".join(result.table().column("plan").to_pylist()) if statement.startswith("EXPLAIN") else ""


def failure(db: Database, text: str) -> str:
    try:
        db.sql(text)
    except AnabranchError as error:
        return error.name
    return "none"


SLT = [
    pytest.param(name, block, id=f"{name}:{block.line}")
    for name, text in LANGUAGE.items()
    for block in blocks(text)
    if block.words == ("slt",)
]


@pytest.mark.parametrize(("name", "block"), SLT)
def test_rows_and_answers_of_the_language(name: str, block: Block, tmp_path: Path) -> None:
    header = f"# name: {name} line {block.line}\n# description: an example\n# group: docs\n\n"
    play_file(
        parse(header + block.text, f"docs/{name}, block on line {block.line}"), SPARKLESS_WAYS[0], tmp_path / "db"
    )


def test_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in order; in Spark's place stands an engine of this process, and waiting makes it work."""
    opened: list[SparklessDatabase] = []
    wait = Query.wait

    def open_without_spark(path: str, **options: Any) -> SparklessDatabase:
        opened.append(SparklessDatabase(path, settings=options.get("settings")))
        return opened[-1]

    def wait_by_working(query: Query, timeout: float | None = None, until: Any = None) -> Query:
        for database in opened:
            database.catch_up()
        return wait(query, timeout, until)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(anabranch, "open", open_without_spark)
    monkeypatch.setattr(Query, "wait", wait_by_working)
    examples = [b for b in blocks(page("python.md")) if b.words == ("pycon",)]
    assert len(examples) >= 8
    test = doctest.DocTest([], {}, "python.md", str(DOCS / "python.md"), 0, None)
    for block in examples:
        for example in doctest.DocTestParser().get_examples(block.text):
            example.lineno += block.line - 1
            test.examples.append(example)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE, verbose=False)
    try:
        outcome = runner.run(test, out=said.append)
    finally:
        for database in opened:
            database.close()
    assert outcome.failed == 0, "".join(said)
    assert outcome.attempted >= 30


def test_python_that_needs_spark_is_at_least_python() -> None:
    for block in blocks(page("python.md")):
        if block.words == ("python",):
            compile(textwrap.dedent(block.text), f"python.md:{block.line}", "exec")


def test_commands_of_the_command_line_page_are_understood() -> None:
    lines = [line for b in blocks(page("cli.md")) if b.words == ("console",) for line in b.text.splitlines()]
    ours = [line.split("| ")[-1].removeprefix("$ ") for line in lines if line.startswith("$ ")]
    ours = [line for line in ours if line.startswith("anabranch ") and "…" not in line and "COMMAND" not in line]
    assert len(ours) >= 10
    for line in ours:
        words = shlex.split(line, comments=True)[1:]
        if words != ["--version"]:
            assert cli.parse(words).command in subcommands(), line
