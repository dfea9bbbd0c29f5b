"""Three sensors, one question: a join of three streams in which each pair has a window of its own.

A reading of the north is joined with one of the south within 5 minutes, and that with one of the east within 10. The
join never waits: a result comes when its last row is there, whichever stream that belongs to.

Prints:
    CO: north 9, south 4, east 4, seen at 08:12
    CO: north 9, south 4, east 3, seen at 08:13
"""

import datetime as dt
import tempfile

import anabranch as ab

EIGHT = dt.datetime(2026, 11, 15, 8, tzinfo=dt.UTC)


def reading(minute: int, gas: str, level: int) -> dict[str, object]:
    return {"gas": gas, "level": level, "ts": EIGHT + dt.timedelta(minutes=minute)}


with tempfile.TemporaryDirectory() as directory, ab.open(directory) as db:
    for place in ("north", "south", "east"):
        db.sql(f"CREATE STREAM {place} (gas STRING, level INT, ts TIMESTAMP) TIMESTAMP BY ts")

    alarm = db.query(
        """SELECT a.gas, a.level AS north, b.level AS south, c.level AS east FROM north a, south b, east c
           WINDOW(a, b) = INTERVAL 5 MINUTES AND WINDOW(b, c) = INTERVAL 10 MINUTES
           WHERE a.gas = b.gas AND b.gas = c.gas AND a.level > 2 * c.level""",
        name="alarm",
    )
    db.append("north", [reading(1, "CO", 9), reading(2, "NO", 3), reading(20, "CO", 9)])
    db.append("south", [reading(3, "CO", 4), reading(4, "NO", 3), reading(14, "CO", 4)])  # 14 is too far from 1 and 20
    db.append("east", [reading(12, "CO", 4), reading(13, "CO", 3), reading(13, "NO", 3)])
    alarm.wait(60)

    for row in alarm.table().to_pylist():
        print("{gas}: north {north}, south {south}, east {east}, seen at {_time:%H:%M}".format(**row))
