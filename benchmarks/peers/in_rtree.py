"""rtree, which is libspatialindex: points packed into an R*-tree, then range queries one by one and all in one call.

The index is made first and its time is said beside; seconds are those of the queries.
"""

from __future__ import annotations

import time
from importlib import metadata

import numpy as np
from pyarrow import parquet
from rtree import index  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.job import Job, Said, answer_to


def work(job: Job) -> Said:
    points = _columns(job.file("points.parquet"))
    lows, highs = _columns(job.file("lows.parquet")), _columns(job.file("highs.parquet"))
    dimensions = points.shape[1]
    properties = index.Property(dimension=dimensions, leaf_capacity=64, index_capacity=64, fill_factor=0.9)
    began = time.perf_counter()
    boxes = np.concatenate([points, points], axis=1)
    tree = index.Index(((i, box, None) for i, box in enumerate(boxes.tolist())), properties=properties)
    made = time.perf_counter() - began
    corners = np.concatenate([lows, highs], axis=1).tolist()
    taken: dict[str, list[float]] = {"one by one": [], "in one call": []}
    answers = set()
    for _ in range(job.rounds):
        began = time.perf_counter()
        found = [list(tree.intersection(corner)) for corner in corners]
        taken["one by one"].append(time.perf_counter() - began)
        answers.add((sum(map(len, found)), sum(map(sum, found))))
        began = time.perf_counter()
        rows, _ = tree.intersection_v(lows, highs)
        taken["in one call"].append(time.perf_counter() - began)
        answers.add((len(rows), int(rows.sum())))
    if len(answers) != 1:
        raise SystemExit(f"the ways to ask do not agree: {answers}")
    ((count, checksum),) = answers
    best = min(taken, key=lambda name: min(taken[name]))
    each = "; ".join(f"{name} {min(seconds):.2f} s" for name, seconds in taken.items())
    measured = f"range queries on an index that was made in {made:.1f} s; {each}"
    return Said(taken[best], job.rows, count, checksum, measured, metadata.version("rtree"))


def _columns(file: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return np.ascontiguousarray(np.stack([column.to_numpy() for column in parquet.read_table(file).columns], axis=1))


if __name__ == "__main__":
    answer_to(work)
