"""Told only when something changes: an alarm that follows the changes of a windowed query, as a trigger would.

`EMIT CHANGES` answers what comes into an answer and what leaves it. The loop acts on each change as it comes; `seen` is
the number of the next one, from which another loop could go on tomorrow.

Prints:
    12:00:10 !! pump 2 is hot
    12:00:30 ok pump 2 has cooled down
    12:00:30 !! pump 1 is hot
"""

import datetime as dt
import tempfile

import anabranch as ab

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)
READINGS = {1: (60, 70, 95, 95), 2: (92, 93, 70, 60)}  # degrees, every ten seconds

with tempfile.TemporaryDirectory() as directory, ab.open(directory) as db:
    db.sql("CREATE STREAM pumps (pump INT, degrees INT, ts TIMESTAMP) TIMESTAMP BY ts")
    hot = db.query(
        """SELECT pump FROM pumps WINDOW = INTERVAL 10 SECONDS WHERE degrees > 90
           GROUP BY pump EMIT CHANGES""",
        name="hot",
    )
    for step in range(4):
        time = NOON + dt.timedelta(seconds=10 * step)
        db.append("pumps", [{"pump": pump, "degrees": degrees[step], "ts": time} for pump, degrees in READINGS.items()])

    seen = 0
    for batch in hot.stream(start=seen, follow=True):  # goes on forever, if nobody breaks off
        for row in batch.to_pylist():
            what = "!! pump {pump} is hot" if row["_change"] == "insert" else "ok pump {pump} has cooled down"
            print(f"{row['_time']:%H:%M:%S}", what.format(**row))
        seen += batch.num_rows
        if seen >= 3:
            break
