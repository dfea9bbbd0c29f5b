"""Work that shows it is alive and gives way to Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

from anabranch.cli.terminal import console, is_terminal, seconds

T = TypeVar("T")
_QUIET_SECONDS = 0.3
"""Work shorter than this shows no spinner, which would only flicker."""

_CANCEL_TRIES = 50


class Cancelled(Exception):
    """The user pressed Ctrl-C while a statement ran."""


def run(work: Callable[[], T], saying: Callable[[], str], cancel: Callable[[], None]) -> T:
    """The value of `work`, which runs beside a spinner; Ctrl-C calls `cancel` and raises Cancelled.

    The work has a thread of its own: the main thread alone hears Ctrl-C, and it is free to listen.
    """
    done = threading.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def body() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            done.set()

    threading.Thread(target=body, name="statement", daemon=True).start()
    try:
        if not done.wait(_QUIET_SECONDS):
            with _spinner() as say:
                started = time.monotonic() - _QUIET_SECONDS
                while not done.wait(0.1):
                    say(f"{saying()} {seconds(time.monotonic() - started)}")
    except KeyboardInterrupt:
        with suppress(KeyboardInterrupt):
            _cancel_until(done, cancel)
        raise Cancelled from None
    if failure:
        raise failure[0]
    return outcome[0]


def _cancel_until(done: threading.Event, cancel: Callable[[], None]) -> None:
    """Again and again for a while: what is to be cancelled may not have begun."""
    for _ in range(_CANCEL_TRIES):
        cancel()
        if done.wait(0.2):
            return


@contextmanager
def interrupts_noted() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that whoever looks can end in order; a second Ctrl-C ends at once.

    As an exception it could land anywhere, even where Python has to swallow it (a finaliser).
    """
    asked = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _spinner() -> Iterator[Callable[[str], None]]:
    if not is_terminal():
        yield lambda text: None
        return
    with console().status("") as status:
        yield status.update
