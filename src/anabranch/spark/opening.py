"""An engine for a database, started when first asked for."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from anabranch.log.storage import Storage
from anabranch.settings import Settings
from anabranch.spark.answers import Answers
from anabranch.spark.engine import SparkEngine
from anabranch.spark.session import Session


def open_engine(root: Storage, settings: Settings, given: Any) -> SparkEngine:
    """Spark for the database at `root`: a session of its own, or the one that was given."""
    session = Session(settings, _log(root), given, warm_up=bool(settings["warm_up"]))
    return SparkEngine(session, Answers(root.child("answers"), settings["answer_bytes"], settings["inline_bytes"]))


def _log(root: Storage) -> str | None:
    """Where Spark says what it has to say: beside the data, or where nothing can be written there, elsewhere."""
    if not root.is_local:
        return None
    if os.access(root.path, os.W_OK):
        return os.path.join(root.path, "spark.log")
    return os.path.join(tempfile.gettempdir(), f"anabranch-{os.getuid()}-spark.log")
