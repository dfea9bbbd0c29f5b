"""`anabranch data-server`: files, tables and streams over Arrow Flight, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator

import pyarrow as pa

from anabranch.cli.failure import report
from anabranch.cli.output import RowPrinter, mode_of
from anabranch.cli.running import interrupts_noted
from anabranch.cli.terminal import plural
from anabranch.dataspace.collection import Collection
from anabranch.dataspace.gate import Limits
from anabranch.dataspace.security import Security, is_loopback, read_secret, read_token
from anabranch.dataspace.server import DataServer
from anabranch.errors import SetupError


def run(args: argparse.Namespace) -> int:
    """The command."""
    security = _security(args)
    security.check_address(args.host, insecure=args.insecure)
    collection = Collection(args.path, _keys(args.keys), args.cache)
    try:
        with interrupts_noted() as asked, _ended_by_term():
            server = DataServer(
                collection,
                args.host,
                args.port,
                security,
                insecure=args.insecure,
                most_streams=args.most_streams,
                most_following=args.most_following,
                stall_seconds=args.stall,
                limits=Limits(most_connections=args.most_connections),
            )
            try:
                _say(server, collection, security, args)
                asked.wait()
            finally:
                if not server.close():
                    collection.close()
                    os._exit(0)  # nobody waits for what Flight still waits for
    finally:
        collection.close()
    return 0


def _say(server: DataServer, collection: Collection, security: Security, args: argparse.Namespace) -> None:
    """Where it is, and what it has; on one line of JSON for programs."""
    sets, failures = collection.readable()
    described = [data_set.describe() for data_set in sets]
    if args.json:
        print(json.dumps({"url": server.url, "datasets": described, "failed": sorted(failures)}), flush=True)
        return
    guarded = [name for name, has in (("TLS", security.certificate), ("token", security.token)) if has]
    print(
        f"serving {plural(len(described), 'data set')} at {server.url}"
        + (f" ({', '.join(guarded)})" if guarded else "")
    )
    rows = [
        {
            "data set": data_set["dataset"],
            "rows": data_set["rows"],
            "columns": ", ".join(name for name, _ in data_set["columns"]),
            "keys": ", ".join(data_set["keys"]),
            "time": data_set["time"] or "-",
        }
        for data_set in described
    ]
    names = {
        "data set": pa.string(),
        "rows": pa.int64(),
        "columns": pa.string(),
        "keys": pa.string(),
        "time": pa.string(),
    }
    RowPrinter(mode_of(False)).print(pa.Table.from_pylist(rows, schema=pa.schema(names)))
    for failure in failures.values():
        report(failure)
    if security.token and not security.certificate and not is_loopback(args.host):
        print(
            "without TLS the token and the data can be read on the way: give --tls-cert and --tls-key", file=sys.stderr
        )
    print("Ctrl-C ends it", flush=True)


def _security(args: argparse.Namespace) -> Security:
    if (args.tls_cert is None) != (args.tls_key is None):
        raise SetupError("TLS_INCOMPLETE", "TLS needs a certificate and its key", hint="give --tls-cert and --tls-key")
    certificate = read_secret(args.tls_cert, "certificate") if args.tls_cert else None
    key = read_secret(args.tls_key, "key") if args.tls_key else None
    return Security(read_token(args.token_file), certificate, key)


def _keys(given: list[str]) -> dict[str, tuple[str, ...]]:
    """`name=lat,lon,ts` for each data set."""
    keys: dict[str, tuple[str, ...]] = {}
    for text in given:
        name, mark, columns = text.partition("=")
        chosen = tuple(column.strip() for column in columns.split(",") if column.strip())
        if not mark or not name or not chosen:
            raise SetupError("KEYS_NOT_UNDERSTOOD", f'"{text}" names no keys', hint="write --keys rain=lat,lon,ts")
        keys[name] = chosen
    return keys


@contextlib.contextmanager
def _ended_by_term() -> Iterator[None]:
    """SIGTERM, as service managers send it, is a Ctrl-C."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: os.kill(os.getpid(), signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
