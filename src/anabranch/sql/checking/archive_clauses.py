"""Clauses about archives, refused where only streams are read."""

from __future__ import annotations

from anabranch.sql.tree import Select


def refuse_windows(select: Select) -> None:
    """For windows and merges that are asked once: they are of streams."""
    for archive in select.archives:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "windows and merges are over streams, not over archives",
            start=archive.start,
            hint="leave ARCHIVE out: asked once, a stream's name stands for all its rows, archived ones too",
        )


def refuse_archives(select: Select) -> None:
    """For standing queries that are not about the past."""
    for archive in select.archives:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "a standing query cannot read an archive like a stream",
            start=archive.start,
            hint="begin in the past with FROM … SINCE TIMESTAMP '…', join with it by "
            "JOIN ARCHIVE … LAST n INTERVAL … WITHIN INTERVAL …, or ask once with SELECT",
        )
    if select.accuracy is not None:
        raise select.error(
            "ARCHIVE_WANTED",
            f"{select.accuracy.said} is for questions to an archive",
            start=select.accuracy.start,
            hint="write FROM ARCHIVE …, or leave it out",
        )
