"""What the paper says of its layouts, held against ours."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.archive.data import COPIED, HYBRIDS, LAZY, VACUUMED
from benchmarks.archive.inserts import Insert
from benchmarks.archive.reads import FIRST, HIGHEST, Read
from benchmarks.archive.together import Cell
from benchmarks.merge.claims import Claim

NEAR_WRITES, NEAR_READS = 0.25, 0.05
"""How far counted I/O may be from Table 1: of the formula for writes, of a full read for reads."""
LARGEST = HYBRIDS[-1]


def claims(inserts: Sequence[Insert], reads: Sequence[Read], cells: Sequence[Cell]) -> list[Claim]:
    written = {each.variant: each for each in inserts}
    read = {(each.variant, each.reduction): each for each in reads}
    return [
        _writes(written),
        _reads(reads),
        _hybrid_inserts_like_plain(written),
        _lazy_inserts_like_plain(written),
        _copy_doubles(written),
        _eager_is_sublinear(written),
        _plain_does_not_care(reads),
        _first_read_is_dearest(reads, read),
        _vacuumed_follows(reads, read),
        _eager_in_steps(read),
        _long_runs_only(read),
        *_together(cells),
    ]


def _writes(written: dict[str, Insert]) -> Claim:
    plain = written["plain"].rows_written
    over = {name: each.rows_written / plain / each.formula for name, each in written.items()}
    far = max(over, key=lambda name: abs(over[name] - 1))
    seen = f"rows written are {over[far]:.2f} of the formula at most off ({far})"
    return Claim("Table 1, writes: what each layout writes", abs(over[far] - 1) < NEAR_WRITES, seen)


def _reads(reads: Sequence[Read]) -> Claim:
    off = {f"{r.variant} at {r.reduction:.0%}": r.share - r.formula for r in reads if r.variant != FIRST}
    far = max(off, key=lambda name: abs(off[name]))
    seen = f"at most {abs(off[far]):.3f} of a full read away ({far})"
    return Claim("Table 1, reads: what each layout reads at each reduction", abs(off[far]) <= NEAR_READS, seen)


def _hybrid_inserts_like_plain(written: dict[str, Insert]) -> Claim:
    over = {name: written[name].seconds / written["plain"].seconds for name in HYBRIDS}
    seen = ", ".join(f"{name} {value:.2f} ×" for name, value in over.items())
    return Claim(
        "hybrid layouts are written about as fast as the strawman (Figure 11)", max(over.values()) <= 1.25, seen
    )


def _lazy_inserts_like_plain(written: dict[str, Insert]) -> Claim:
    over = written[LAZY].seconds / written["plain"].seconds
    return Claim(
        "before it is vacuumed the lazy layout costs about as much as the strawman", over <= 1.25, f"{over:.2f} ×"
    )


def _copy_doubles(written: dict[str, Insert]) -> Claim:
    over = written[COPIED].seconds / written["plain"].seconds
    return Claim("with its copy the lazy layout costs up to twice as much (Figure 9)", over <= 2.1, f"{over:.2f} ×")


def _eager_is_sublinear(written: dict[str, Insert]) -> Claim:
    eager = written["on_write_replicate"]
    over = eager.seconds / written["plain"].seconds
    seen = f"{over:.2f} × the time for {eager.formula:.0f} × the rows"
    return Claim(
        "the eager layout costs more, but less than in proportion to its copies", 1 < over < eager.formula, seen
    )


def _plain_does_not_care(reads: Sequence[Read]) -> Claim:
    shares = [r.share for r in reads if r.variant == "plain"]
    seconds = [r.seconds for r in reads if r.variant == "plain" and r.seconds is not None]
    times = f"{1000 * min(seconds):.0f} to {1000 * max(seconds):.0f} ms"
    seen = f"{min(shares):.2f} to {max(shares):.2f} of a full read, {times}"
    return Claim("the strawman reads as much at every reduction (Figure 12)", min(shares) > 0.99, seen)


def _first_read_is_dearest(reads: Sequence[Read], read: dict[tuple[str, float], Read]) -> Claim:
    reductions = [r.reduction for r in reads if r.variant == FIRST and r.reduction > 0]
    over = max(read[FIRST, each].share / read["plain", each].share for each in reductions)
    seen = f"{over:.3f} of a full read: a mark is a number for each run, where the paper writes each block once more"
    return Claim("the first reduced read of the lazy layout costs nearly twice the strawman's", over > 1.5, seen)


def _vacuumed_follows(reads: Sequence[Read], read: dict[tuple[str, float], Read]) -> Claim:
    off = [r.share - (1 - r.reduction) for r in reads if r.variant == VACUUMED and r.reduction > 0]
    seen = f"at most {max(off):.3f} of a full read more than what is kept"
    return Claim("once vacuumed, reads of the lazy layout shrink with the reduction", max(off) <= NEAR_READS, seen)


def _eager_in_steps(read: dict[tuple[str, float], Read]) -> Claim:
    last, before = read["on_write_replicate", HIGHEST].share, read["on_write_replicate", 0.8].share
    seen = f"{before:.2f} of a full read at 80 %, {last:.2f} at 99 %"
    return Claim("the eager layout stops saving beyond its smallest copy", abs(last - before) < NEAR_READS, seen)


def _long_runs_only(read: dict[tuple[str, float], Read]) -> Claim:
    """The paper's file system read ahead; ours is asked for ranges of bytes."""
    faster = {name: (read["plain", 0.9].seconds or 0) / (read[name, 0.9].seconds or 1) for name in HYBRIDS}
    seen = "at 90 %: " + ", ".join(f"{name} {value:.1f} ×" for name, value in faster.items())
    return Claim(
        "of the hybrid layouts only that with runs of 500 blocks is always faster than the strawman",
        faster[LARGEST] > 1 >= faster[HYBRIDS[0]],
        seen,
    )


def _together(cells: Sequence[Cell]) -> list[Claim]:
    """Figures 13 to 18."""
    by = {(cell.variant, cell.reduction, cell.queries): cell for cell in cells}
    most = max(cell.queries for cell in cells)
    few = min(cell.queries for cell in cells if cell.queries > 2)
    alone, early, late = (by["plain", 0.25, n] for n in (0, few, most))
    several = ", ".join(f"{cell.seconds:.2f} s with {cell.queries}" for cell in (alone, early, late))
    seen = f"plain at 25 %: {several}"
    slower = Claim(
        "inserts slow down with queries, and then no further (Figures 13, 14)",
        early.seconds > alone.seconds and late.seconds < 1.5 * early.seconds,
        seen,
    )
    rates = [by["plain", 0.25, n].per_1000_seconds for n in (few, most)]
    seen = f"plain at 25 %: {rates[0]:,.0f} per 1,000 s with {few}, {rates[1]:,.0f} with {most}"
    fixed = Claim("beyond a few, more queries at once complete no more of them", rates[1] < 1.25 * rates[0], seen)
    gains = {
        name: by[name, 0.99, few].per_1000_seconds / max(by[name, 0.0, few].per_1000_seconds, 1)
        for name in ("plain", "on_write_replicate", VACUUMED, LARGEST)
    }
    seen = f"99 % against none, {few} queries: " + ", ".join(f"{name} {value:.1f} ×" for name, value in gains.items())
    more = Claim(
        "the vacuumed lazy layout and the hybrid one complete more queries the more is dropped (Figures 17, 18)",
        min(gains[VACUUMED], gains[LARGEST]) > 2 * gains["plain"],
        seen,
    )
    return [slower, fixed, more]
