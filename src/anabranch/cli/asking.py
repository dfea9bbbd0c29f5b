"""A statement that is being run, and how to stop it without touching the queries that stand."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from anabranch.cli.sql import answer
from anabranch.cli.statement_texts import StatementText

if TYPE_CHECKING:
    from anabranch.database import Database
    from anabranch.result import Result

_ASKS = ("select", "with")


class Asking:
    """Runs a statement; what Spark computes for it carries a tag, by which it can be interrupted."""

    def __init__(self, db: Database, statement: StatementText) -> None:
        self._db, self._statement = db, statement
        self._tag = f"statement-{uuid.uuid4().hex}"
        self._asks = statement.text.lower().startswith(_ASKS)
        self._spark_is_up = False

    def answer(self) -> Result:
        """The statement's result; only a question is tagged, a standing query must not inherit the tag."""
        if not self._asks:
            return answer(self._db, self._statement)
        engine = self._db.engine()
        engine.start()
        self._spark_is_up = True
        with engine.tagged(self._tag):
            return answer(self._db, self._statement)

    def saying(self) -> str:
        """What is going on, for a spinner."""
        return "running …" if self._spark_is_up or not self._asks else "starting Spark …"

    def cancel(self) -> None:
        """Interrupt what Spark computes for this statement at this moment; there may be nothing yet."""
        if self._spark_is_up:
            self._db.engine().cancel(self._tag)
