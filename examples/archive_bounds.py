"""How fast do cars go? A million archived rows, asked for an answer that is good enough.

An archive keeps the past of a stream on disk, laid out so that part of it can be read for part of the cost.
`WITH ERROR` reads as little as it takes, and says between which bounds the truth lies in 95 of 100 such answers.

Prints:
    from all rows:    80 km/h
    from 2% of them:  80 km/h, give or take 0.2
"""

import tempfile

import numpy as np
import pyarrow as pa

import anabranch as ab

ROWS = 1_000_000
MORNING = np.datetime64("2026-11-15T06:00:00", "us")

chance = np.random.default_rng(7)
cars = pa.table(
    {
        "exit": chance.integers(1, 9, ROWS, dtype=np.int32),
        "speed": chance.normal(80, 15, ROWS),
        "at": pa.array(MORNING + np.arange(ROWS) * np.timedelta64(10, "ms")).cast(pa.timestamp("us", "UTC")),
    }
)

with tempfile.TemporaryDirectory() as directory, ab.open(directory) as db:
    db.sql("""CREATE STREAM cars (exit INT, speed DOUBLE, at TIMESTAMP) TIMESTAMP BY at;
              CREATE ARCHIVE ON cars USING randomize_then_sort OPTIONS (seed 7)""")
    db.append("cars", cars)
    db.archive("cars").append()  # at once; otherwise done in the background

    (exact,) = db.sql("SELECT avg(speed) AS speed FROM ARCHIVE cars")
    print(f"from all rows:    {exact['speed']:.0f} km/h")

    (about,) = db.sql("SELECT avg(speed) AS speed FROM ARCHIVE cars WITH ERROR 1 PERCENT CONFIDENCE 95 PERCENT")
    give_or_take = (about["speed_high"] - about["speed_low"]) / 2
    print(f"from {about['_fraction']:.0%} of them:  {about['speed']:.0f} km/h, give or take {give_or_take:.1f}")
