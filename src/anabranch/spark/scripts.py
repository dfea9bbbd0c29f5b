"""Short shell scripts of ours that stand before programs which Spark starts, kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path


class NotKept(Exception):
    """Why a script could not be written."""


def keep(text: str, name: str, env: Mapping[str, str]) -> Path:
    """The path of an executable file with this text; `name` is the end of the path.

    A part of the path is made from the text, and the file appears whole or not at all, so any number of processes
    may do this at the same time.
    """
    script = _cache_directory(env) / hashlib.sha256(text.encode()).hexdigest()[:16] / name
    try:
        if script.is_file() and os.access(script, os.X_OK) and script.read_text() == text:
            return script
        script.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary_name = tempfile.mkstemp(dir=script.parent, prefix=".new-")
        temporary = Path(temporary_name)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            temporary.chmod(0o755)
            temporary.replace(script)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as problem:
        raise NotKept(f"could not be written to {script} ({problem.strerror})") from None
    return script


def _cache_directory(env: Mapping[str, str]) -> Path:
    """The user's cache, or where there is none to write to, a directory of this user's among temporary files."""
    user_cache = env.get("XDG_CACHE_HOME") or (str(Path(env["HOME"], ".cache")) if env.get("HOME") else None)
    places = [Path(user_cache, "anabranch")] if user_cache else []
    places.append(Path(tempfile.gettempdir(), f"anabranch-{os.getuid()}"))
    for place in places:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = place.lstat()
        except OSError:
            continue
        # What others could change must not be run: it has to be ours alone to write to.
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
        if ours and os.access(place, os.W_OK):
            return place / "scripts"
    raise NotKept("has no directory to be kept in: set XDG_CACHE_HOME to one")
