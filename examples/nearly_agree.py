"""Two instruments never quite agree: rain and floods, merged by place and time within tolerances.

An equality would find nothing here. `MERGE JOIN … ON within(…)` pairs each rainfall with the nearest flood that is at
most a quarter of a degree and an hour away, and `LEFT` keeps those that have none.

Prints:
    51.02  31 mm -> 0.8 m
    48.50  12 mm -> no flood
    50.10  44 mm -> 1.5 m
"""

import datetime as dt
import tempfile

import anabranch as ab

SIX = dt.datetime(2026, 11, 15, 6, tzinfo=dt.UTC)


def at(minute: int) -> dt.datetime:
    return SIX + dt.timedelta(minutes=minute)


with tempfile.TemporaryDirectory() as directory, ab.open(directory) as db:
    db.sql("""CREATE STREAM rain (lat DOUBLE, mm INT, ts TIMESTAMP) TIMESTAMP BY ts;
              CREATE STREAM floods (lat DOUBLE, depth DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts""")
    db.append("rain", {"lat": [51.02, 48.50, 50.10], "mm": [31, 12, 44], "ts": [at(0), at(10), at(40)]})
    db.append("floods", {"lat": [51.20, 51.00, 50.00], "depth": [0.3, 0.8, 1.5], "ts": [at(5), at(20), at(70)]})

    merged = db.sql("""SELECT p.lat, p.mm, f.depth, p.ts FROM rain p LEFT MERGE JOIN floods f
                       ON within(p.lat, f.lat, 0.25) AND within(p.ts, f.ts, INTERVAL 1 HOUR)
                       WITH (policy = 'nearest')""")
    for row in sorted(merged, key=lambda row: row["ts"]):
        flood = "no flood" if row["depth"] is None else f"{row['depth']} m"
        print(f"{row['lat']:.2f}  {row['mm']} mm -> {flood}")
