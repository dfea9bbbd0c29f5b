"""Who sends most? Packets counted per source in windows of a minute that move on by ten seconds.

A standing query begins with what its stream holds and keeps up with what is appended. It has all its answers so far
in `table()`, and in `store()` the current one: the newest window that is complete.

Prints:
    18 rows of answers
    12:01:30 10.0.0.1 sent 36 packets, 26637 bytes
    12:01:30 10.0.0.3 sent 12 packets, 9810 bytes
"""

import datetime as dt
import tempfile

import anabranch as ab

NOON = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


def packets(first: int, last: int) -> list[dict[str, object]]:
    """One packet a second, made up: host 1 sends three of five, hosts 2 and 3 one each."""
    hosts = (1, 2, 1, 3, 1)
    return [
        {"saddr": f"10.0.0.{hosts[n % 5]}", "length": 40 + 37 * n % 1461, "ts": NOON + dt.timedelta(seconds=n)}
        for n in range(first, last)
    ]


with tempfile.TemporaryDirectory() as directory, ab.open(directory) as db:
    db.sql("CREATE STREAM packets (saddr STRING, length INT, ts TIMESTAMP) TIMESTAMP BY ts")
    db.append("packets", packets(0, 60))

    talkers = db.query(
        """SELECT saddr, count(*) AS packets, sum(length) AS bytes FROM packets
           WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECONDS
           GROUP BY saddr ORDER BY bytes DESC LIMIT 2""",
        name="talkers",
    )
    db.append("packets", packets(60, 100))  # more packets, while the query runs
    talkers.wait(60)

    print(talkers.table().num_rows, "rows of answers")
    for row in talkers.store().to_pylist():
        print(f"{row['_time']:%H:%M:%S} {row['saddr']} sent {row['packets']} packets, {row['bytes']} bytes")
