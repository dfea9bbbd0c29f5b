"""What can be said: one dataclass for each statement, and one table that lists them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from anabranch.connectors import sources
from anabranch.sql.tree import Select
from anabranch.tables.origin import FORMATS, Origin


@dataclass(frozen=True)
class Statement:
    """Base of all statements; `source` is the statement's own text."""

    source: str = field(default="", compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class CreateStream(Statement):
    """A new, empty stream. Without `time`, rows are stamped on arrival."""

    name: str
    columns: tuple[tuple[str, str], ...]
    time: str | None = None
    skew_us: int = 0
    retain_us: int | None = None
    idle_us: int | None = None
    kind: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False
    changes_by: str | None = None
    """Of a change feed: the column that says what became of a row, of which `key` says which it is."""
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreateStreamAs(Statement):
    """A stream that is the answer of a standing query of the same name."""

    name: str
    select: Select
    if_not_exists: bool = False
    retain_us: int | None = None


@dataclass(frozen=True)
class CreateQuery(Statement):
    """A standing query: starts with what its streams hold and goes on; run alone, or by a host with others."""

    name: str
    select: Select
    if_not_exists: bool = False
    host: str | None = None
    alone: bool = False
    retain_us: int | None = None
    """How long its answers are kept; None: for good."""


@dataclass(frozen=True)
class CreateView(Statement):
    """A view: the answer of a SELECT as rows that change, kept up to date."""

    name: str
    select: Select
    if_not_exists: bool = False
    retain_us: int | None = None
    """How long its changes are kept; None: for a day."""


@dataclass(frozen=True)
class InsertInto(Statement):
    """Rows for a stream or table: plain values, or those of a SELECT; without `columns`, in its order.

    `upsert`: rows of a table that have the keys of these are replaced.
    """

    stream: str
    columns: tuple[str, ...] | None
    rows: list[list[Any]]
    select: Select | None = None
    upsert: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    """A new table; `required` are the columns that say NOT NULL. It is empty, or the copy of a file.

    Of a file without `columns` they are its own.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    required: tuple[str, ...] = ()
    retain_us: int | None = None
    if_not_exists: bool = False
    origin: Origin | None = None


@dataclass(frozen=True)
class UpdateTable(Statement):
    """New values of some columns: `select` is `SELECT value, … FROM table WHERE …`."""

    table: str
    columns: tuple[str, ...]
    select: Select
    starts: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """Where the names of the columns stand in the text."""


@dataclass(frozen=True)
class DeleteFrom(Statement):
    """Rows that go: `select` is `SELECT 1 FROM table WHERE …`."""

    table: str
    select: Select


class When(NamedTuple):
    """One WHEN of a MERGE INTO; conditions and values are numbers of expressions. Without `columns`, all of them."""

    matched: bool
    condition: int | None
    action: Literal["update", "delete", "insert"]
    columns: tuple[str, ...] | None = None
    values: tuple[int, ...] | None = None
    """None: the columns of the source by their names (`UPDATE SET *`, `INSERT *`)."""


@dataclass(frozen=True)
class MergeInto(Statement):
    """Rows of a source meet those of a table: `using` is `SELECT * FROM source`.

    `expressions` is a SELECT without FROM: first the condition of ON, then those that `whens` number.
    """

    table: str
    alias: str
    using: Select
    source_alias: str
    expressions: Select
    whens: tuple[When, ...]


@dataclass(frozen=True)
class SelectOnce(Statement):
    """A question asked once, over what the streams hold now."""

    select: Select


@dataclass(frozen=True)
class Subscribe(Statement):
    """The answers of a query as they come, from number `start` on; None: from now on."""

    name: str
    start: int | None = None


@dataclass(frozen=True)
class ExplainQuery(Statement):
    """A running query, as the thing to explain."""

    name: str


@dataclass(frozen=True)
class Explain(Statement):
    """How a query is or would be run; a SELECT is explained as a standing query."""

    statement: SelectOnce | CreateQuery | CreateStreamAs | CreateView | ExplainQuery
    format: Literal["text", "json"] = "text"


@dataclass(frozen=True)
class Show(Statement):
    """All objects of a kind in the order of their names, or those whose name is like a pattern; or a page of them."""

    kind: str
    like: str | None = None
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class ShowCreate(Statement):
    """The statement that would make an object again."""

    kind: str
    name: str | None


@dataclass(frozen=True)
class Describe(Statement):
    """What there is to know of an object; without `kind`, of whichever has the name.

    Here and below, `on` is what an object lies on: the stream of an archive, which need not be named then.
    """

    kind: str | None
    name: str | None
    on: str = ""


@dataclass(frozen=True)
class StopQuery(Statement):
    """Ends the running of a query; its answers stay."""

    name: str


@dataclass(frozen=True)
class StartQuery(Statement):
    """Runs a stopped query again, from where it was."""

    name: str


@dataclass(frozen=True)
class AlterQuery(Statement):
    """Says how many of its windows a query answers, while it runs."""

    name: str
    every: int
    at_most: int = 0


@dataclass(frozen=True)
class MoveQuery(Statement):
    """Has a query be run by a host together with others, or alone."""

    name: str
    host: str | None


@dataclass(frozen=True)
class Drop(Statement):
    """Removes an object and all it holds."""

    kind: str
    name: str | None
    if_exists: bool = False
    on: str = ""
    cascade: bool = False
    """Whether those that read it go, too."""


@dataclass(frozen=True)
class AddColumn(Statement):
    """One more column for a stream; `type` is its SQL type, and rows that are there have NULL in it."""

    stream: str
    column: str
    type: str


@dataclass(frozen=True)
class CreateArchive(Statement):
    """An archive of a stream; without `name` it is called as its layout is."""

    stream: str
    name: str | None
    layout: str
    by: str | None = None
    every_us: int | None = None
    group_by: tuple[str, ...] = ()
    keep_us: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterArchive(Statement):
    """Exactly one of: a level (a reduction in percent) to add, one to drop, and how long rows are kept.

    Here and in the statements below an archive without `name` is the only one of its stream.
    """

    stream: str
    name: str | None
    add_level: int | None = None
    drop_level: int | None = None
    keep_us: int | None = None


@dataclass(frozen=True)
class VacuumArchive(Statement):
    """Deletes files that the archive has not used for `retain_us`; None: as long as it does by itself."""

    stream: str
    name: str | None
    retain_us: int | None = None


class Syntax(NamedTuple):
    """A line of the table of statements."""

    name: str
    syntax: str
    help: str
    statement: type[Statement]


STATEMENTS: tuple[Syntax, ...] = (
    Syntax(
        "CREATE STREAM",
        f"CREATE STREAM [IF NOT EXISTS] name (column TYPE, …) [FROM {' | '.join(sources())}] [TIMESTAMP BY column] "
        "[CHANGES BY column KEY (column, …)] [ALLOW SKEW INTERVAL …] [RETAIN INTERVAL …] [IDLE AFTER INTERVAL …] "
        "[OPTIONS (key 'value', …)]",
        "declares a stream; without TIMESTAMP BY its rows are stamped on arrival",
        CreateStream,
    ),
    Syntax(
        "CREATE STREAM AS",
        "CREATE STREAM [IF NOT EXISTS] name [RETAIN INTERVAL …] AS SELECT …",
        "a stream that is the answer of a standing query",
        CreateStreamAs,
    ),
    Syntax(
        "CREATE CONTINUOUS QUERY",
        "CREATE CONTINUOUS QUERY [IF NOT EXISTS] name [ON HOST name | ALONE] [RETAIN INTERVAL …] AS SELECT …",
        "a standing query: begins with what its streams hold and goes on live",
        CreateQuery,
    ),
    Syntax(
        "INSERT INTO",
        "INSERT [OR REPLACE] INTO stream | table [(column, …)] VALUES (value, …), … | SELECT …",
        "appends rows to a stream, or adds rows to a table; OR REPLACE in the place of those with their keys",
        InsertInto,
    ),
    Syntax(
        "UPSERT INTO",
        "UPSERT INTO table [(column, …)] VALUES (value, …), … | SELECT …",
        "adds rows to a table, in the place of those with their keys",
        InsertInto,
    ),
    Syntax(
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] name (column TYPE [NOT NULL], …, PRIMARY KEY (column, …)) [RETAIN INTERVAL …]",
        "declares a table: rows by key, which change; RETAIN says how long its changes are kept",
        CreateTable,
    ),
    Syntax(
        "CREATE TABLE FROM",
        "CREATE TABLE [IF NOT EXISTS] name [(column TYPE [NOT NULL], …)] PRIMARY KEY (column, …) "
        f"FROM [{' | '.join(FORMATS)}] 'path' [REFRESH EVERY INTERVAL …] [RETAIN INTERVAL …]",
        "makes a table that is a copy of a file, and with REFRESH EVERY follows it",
        CreateTable,
    ),
    Syntax(
        "CREATE MATERIALIZED VIEW",
        "CREATE MATERIALIZED VIEW [IF NOT EXISTS] name [RETAIN INTERVAL …] AS SELECT … "
        "[ACCEPT UNBOUNDED | EXPIRE AFTER INTERVAL … | KEEP GROUPS n]",
        "keeps the answer of any SELECT up to date; RETAIN says how long its changes are kept",
        CreateView,
    ),
    Syntax(
        "UPDATE",
        "UPDATE table [[AS] alias] SET column = value, … [WHERE …]",
        "changes rows of a table",
        UpdateTable,
    ),
    Syntax("DELETE FROM", "DELETE FROM table [[AS] alias] [WHERE …]", "removes rows of a table", DeleteFrom),
    Syntax(
        "MERGE INTO",
        "MERGE INTO table [[AS] alias] USING source [[AS] alias] ON … "
        "WHEN MATCHED [AND …] THEN UPDATE SET column = value, … | UPDATE SET * | DELETE "
        "WHEN NOT MATCHED [AND …] THEN INSERT [(column, …)] VALUES (value, …) | INSERT *",
        "changes, removes and adds rows of a table, as rows of a stream, table or query meet them",
        MergeInto,
    ),
    Syntax(
        "SELECT",
        "SELECT … FROM stream [, stream … | MERGE JOIN stream ON within(…) [WITH (…)] | "
        "JOIN ARCHIVE stream LAST n INTERVAL … WITHIN INTERVAL … ON …] "
        "[SINCE TIMESTAMP … [UNTIL TIMESTAMP …]] [REDUCE BY reducer(…)] "
        "[WINDOW = size [SLIDE step] | WINDOW(a, b) = size [AND …]] [WHERE …] "
        "[GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT n] [WITH (memory = size, shed = 'random')] "
        "[EMIT CHANGES | EMIT FINAL | EMIT IN ORDER | EMIT EVERY INTERVAL …] [WITH CONFIDENCE n PERCENT]",
        "asks once, over what the streams hold; without WINDOW and MERGE all of Spark SQL's queries are allowed",
        SelectOnce,
    ),
    Syntax(
        "SELECT FROM ARCHIVE",
        "SELECT … FROM ARCHIVE [name ON] stream [[AS] alias] [BETWEEN time AND time] [REDUCE BY reducer(…)] … "
        "[WITH ERROR n PERCENT [CONFIDENCE n PERCENT] | WITHIN n MILLISECONDS [CONFIDENCE n PERCENT] | "
        "WITH CONFIDENCE n PERCENT]",
        "asks once, over what an archive holds, in full or reduced and then with bounds",
        SelectOnce,
    ),
    Syntax("SUBSCRIBE TO", "SUBSCRIBE TO query [FROM number]", "shows answers as they come", Subscribe),
    Syntax(
        "EXPLAIN",
        "EXPLAIN [FORMAT JSON | FORMAT TEXT] SELECT … | CREATE CONTINUOUS QUERY … | CREATE MATERIALIZED VIEW … | "
        "QUERY name",
        "the operators, the streams, what is kept and why it is bounded",
        Explain,
    ),
    Syntax("SHOW STREAMS", "SHOW STREAMS [LIKE 'pattern'] [LIMIT n [OFFSET n]]", "lists the streams", Show),
    Syntax("SHOW TABLES", "SHOW TABLES [LIKE 'pattern'] [LIMIT n [OFFSET n]]", "lists the tables", Show),
    Syntax("SHOW VIEWS", "SHOW VIEWS [LIKE 'pattern'] [LIMIT n [OFFSET n]]", "lists the views", Show),
    Syntax("SHOW QUERIES", "SHOW QUERIES [LIKE 'pattern'] [LIMIT n [OFFSET n]]", "lists the standing queries", Show),
    Syntax(
        "DESCRIBE",
        "DESCRIBE [STREAM | TABLE | VIEW | QUERY] name",
        "the columns and settings of a stream, table, view or query",
        Describe,
    ),
    Syntax("SHOW CREATE", "SHOW CREATE TABLE | VIEW name", "the statement that makes a table or view", ShowCreate),
    Syntax("STOP QUERY", "STOP QUERY name", "ends the running of a query; its answers stay", StopQuery),
    Syntax("START QUERY", "START QUERY name", "runs a stopped query again, from where it was", StartQuery),
    Syntax(
        "ALTER QUERY",
        "ALTER QUERY name REEVALUATE EVERY k [AT MOST n]",
        "answers every k-th window, fewer while the query is behind, down to every n-th",
        AlterQuery,
    ),
    Syntax(
        "ALTER QUERY ON HOST",
        "ALTER QUERY name ON HOST host | ALONE",
        "has a query run by a host together with others, or alone, from where it is",
        MoveQuery,
    ),
    Syntax(
        "DROP",
        "DROP STREAM | TABLE | VIEW | QUERY [IF EXISTS] name [CASCADE]",
        "removes a stream, table, view or query and all it holds; CASCADE also those that read it",
        Drop,
    ),
    Syntax(
        "ALTER STREAM",
        "ALTER STREAM stream ADD COLUMN name TYPE",
        "one more column; rows that are there have NULL in it",
        AddColumn,
    ),
    Syntax(
        "CREATE ARCHIVE",
        "CREATE ARCHIVE [IF NOT EXISTS] [name] ON stream USING layout [BY column] "
        "[EVERY INTERVAL … [GROUP BY column, …]] [KEEP INTERVAL …] [OPTIONS (key value, …)]",
        "keeps the past of a stream on disk, laid out so that part of it can be read for part of the cost",
        CreateArchive,
    ),
    Syntax(
        "ALTER ARCHIVE",
        "ALTER ARCHIVE [name] ON stream ADD LEVEL n PERCENT | DROP LEVEL n PERCENT | KEEP INTERVAL …",
        "adds or removes a smaller copy, or says how long rows are kept",
        AlterArchive,
    ),
    Syntax(
        "DROP ARCHIVE",
        "DROP ARCHIVE [IF EXISTS] [name] ON stream",
        "removes an archive and all it holds; the stream stays",
        Drop,
    ),
    Syntax(
        "DESCRIBE ARCHIVE",
        "DESCRIBE ARCHIVE [name] ON stream",
        "the layout, rows, bytes, fractions and age of an archive",
        Describe,
    ),
    Syntax("SHOW ARCHIVES", "SHOW ARCHIVES [LIKE 'pattern'] [LIMIT n [OFFSET n]]", "lists the archives", Show),
    Syntax(
        "VACUUM ARCHIVE",
        "VACUUM ARCHIVE [name] ON stream [RETAIN INTERVAL …]",
        "deletes files that the archive no longer uses",
        VacuumArchive,
    ),
)
"""Every statement of the language; the documentation and the shell's help are made from it."""
