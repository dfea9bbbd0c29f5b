"""The commands, their options, and what becomes of an error.

Nothing heavy is imported before a command runs, so that `--help` and a mistyped option answer at
once. The exit code is 0 if all went well, 1 for an error, 2 for wrong usage, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

DEFAULT_DB = "river"
FAILED, USAGE, BROKEN_PIPE, INTERRUPTED = 1, 2, 141, 130

Parser = argparse.ArgumentParser


@dataclass(frozen=True)
class Command:
    """A subcommand; its module in this package has `run(args) -> int`."""

    name: str
    help: str
    add_arguments: Callable[[Parser], None]


def _demo_arguments(parser: Parser) -> None:
    parser.add_argument("--seconds", type=_positive, metavar="N", help="end by itself N seconds after the queries run")
    parser.add_argument(
        "--rate", type=_positive, default=20_000, metavar="ROWS", help="rows a second on each link (default 20000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="which simulated network (default 1)")


def _sql_arguments(parser: Parser) -> None:
    parser.add_argument("-c", dest="text", metavar="TEXT", help="run these statements")
    parser.add_argument("file", nargs="?", metavar="FILE", help="run the statements of a file; - is standard input")


def _append_arguments(parser: Parser) -> None:
    parser.add_argument("stream", metavar="STREAM")
    parser.add_argument("file", metavar="FILE", help="CSV with a header, JSON, Parquet or Arrow; - is standard input")
    parser.add_argument("--format", choices=("csv", "json", "parquet", "arrow"), help="default: by name, then content")
    parser.add_argument("--batch", type=_positive, default=100_000, metavar="N", help="rows per append (100000)")


def _tail_arguments(parser: Parser) -> None:
    parser.add_argument("stream", metavar="STREAM", help="a stream, a query, or STREAM.rejects")
    parser.add_argument("-n", dest="rows", type=_natural, default=10, metavar="ROWS", help="how many rows (10)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with rows as they come, until Ctrl-C")


def _top_arguments(parser: Parser) -> None:
    parser.add_argument("--once", action="store_true", help="print once and end")
    parser.add_argument(
        "--every", type=_positive_float, default=1.0, metavar="SECONDS", help="seconds between two looks (1)"
    )


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("directory", nargs="?", metavar="DIR", help="the database's directory, instead of --db")
    parser.add_argument("--repair", action="store_true", help="do what is safe, and go on without what is lost")


def _data_server_arguments(parser: Parser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file, a folder of files, a Delta table or a database")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument(
        "--port", type=_natural, default=0, metavar="N", help="the port; 0, the default, takes a free one"
    )
    parser.add_argument(
        "--keys", action="append", default=[], metavar="NAME=COLUMN,…", help="the keys of a data set (all that can be)"
    )
    parser.add_argument("--token-file", metavar="FILE", help="the token clients must show (default: $ANABRANCH_TOKEN)")
    parser.add_argument("--tls-cert", metavar="FILE", help="the certificate, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, PEM")
    parser.add_argument(
        "--insecure", action="store_true", help="without a token, listen on other addresses than this machine's"
    )
    for what, default in (("streams", 64), ("following", 64), ("connections", 256)):
        parser.add_argument(
            f"--most-{what}",
            type=_positive,
            default=default,
            metavar="N",
            help=f"at once; half for one client ({default})",
        )
    parser.add_argument(
        "--stall",
        type=_positive_float,
        default=60.0,
        metavar="SECONDS",
        help="until one who reads nothing is cut off (60)",
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="where decoded files are kept while it runs (the temporary directory)"
    )


COMMANDS: tuple[Command, ...] = (
    Command("demo", "a simulated network with standing queries, live in the terminal", _demo_arguments),
    Command("sql", "run statements, or open a shell", _sql_arguments),
    Command("append", "append the rows of a file to a stream", _append_arguments),
    Command("tail", "the last rows of a stream or of a query's answer", _tail_arguments),
    Command("top", "streams and queries of a database, live", _top_arguments),
    Command("check", "is everything there that was written, and as it was written?", _check_arguments),
    Command("prepare", "once: make every later start of Spark take a third less", lambda parser: None),
    Command("data-server", "serve files, tables and streams over the network", _data_server_arguments),
)


def parser() -> Parser:
    """The whole command line; common options may stand before or after the command."""
    common = Parser(add_help=False)
    common.add_argument(
        "--db",
        default=argparse.SUPPRESS,
        metavar="PATH",
        help=f"the database's directory (default: $ANABRANCH_DB, else ./{DEFAULT_DB})",
    )
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON object per line")
    common.add_argument(
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="show the stack of an error, and what gRPC says",
    )
    root = Parser(
        prog="anabranch",
        description="A stream database: declare streams, ask standing questions, get answers that keep up.",
        parents=[common],
    )
    root.add_argument("--version", action="version", version=f"anabranch {_version()}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help, parents=[common])
        command.add_arguments(sub)
    return root


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Arguments with every default filled in; `db_given` says whether a place was chosen."""
    args = parser().parse_args(argv)
    chosen = getattr(args, "db", None) or os.environ.get("ANABRANCH_DB")
    args.db_given = chosen is not None
    args.db = chosen or DEFAULT_DB
    args.json = getattr(args, "json", False)
    args.verbose = getattr(args, "verbose", False)
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the value is the process's exit code."""
    try:
        args = parse(argv)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else USAGE
    if args.verbose:
        os.environ.setdefault("GRPC_VERBOSITY", "INFO")  # read when what speaks gRPC is first imported
    try:
        run: Callable[[argparse.Namespace], int] = importlib.import_module(_module_of(args.command)).run
        code = run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): nothing is left to say, not even on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:
        from anabranch.cli.failure import report

        report(error, verbose=args.verbose, as_json=args.json)
        return FAILED


def _module_of(command: str) -> str:
    return f"anabranch.cli.{command.replace('-', '_')}"


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("anabranch")
    except PackageNotFoundError:
        return "(not installed)"


def _natural(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if (number := _natural(text)) == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _positive_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not a number") from None
    if not 0 < number < 86_400:
        raise argparse.ArgumentTypeError("must be above 0 and below a day")
    return number
