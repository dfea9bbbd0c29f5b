"""`anabranch check`: whether everything is there that was written, and is what was written."""

from __future__ import annotations

import argparse
import json
import sys
import time

from anabranch.cli.terminal import is_terminal
from anabranch.log.storage import Storage
from anabranch.queries.check import Report, check_database


def run(args: argparse.Namespace) -> int:
    """The command; 0 if all is fine, 1 if something was found."""
    began = time.monotonic()
    shown = is_terminal(sys.stderr) and not args.json
    path = args.directory or args.db
    report = check_database(Storage(path), repair=args.repair, watch=_show if shown else lambda what, done, of: None)
    if shown:
        print("\r\033[K", end="", file=sys.stderr)
    if args.json:
        print(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        _print(report, path, time.monotonic() - began, args.repair)
    return 0 if report.fine else 1


def _show(what: str, done: int, of: int) -> None:
    part = min(100 * done // of, 100) if of else 100
    print(f"\r\033[K{part:3} %  {what}", end="", file=sys.stderr, flush=True)


def _print(report: Report, path: str, seconds: float, repair: bool) -> None:
    problems = {id(finding): problem for finding, problem in report.failed}
    for finding in report.findings:
        print(f"{finding.what}: {finding.means}")
        print(f"  {finding.place}")
        if id(finding) in problems:
            print(f"  not repaired: {problems[id(finding)]}")
        elif any(finding is done for done in report.repaired):
            print(f"  repaired: {finding.remedy}")
        elif finding.remedy is not None:
            print(f"  --repair {finding.remedy}")
    size = f"{report.bytes / 1e6:.1f} MB of rows looked at in {seconds:.1f} s"
    if report.fine:
        print(f"{path} is as it was written; {size}")
    else:
        mended = f", {len(report.repaired)} repaired" if repair else ""
        print(f"{len(report.findings)} found{mended}; {size}")
