"""A window join as everybody writes it who means the same.

Sources are called `s0`, `s1` and so on by the order of their streams' names, whatever place they have in FROM: so
conditions read the same for all. The places stay, as answers of the same time are ordered by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from anabranch.operators.canonical import Naming, as_named, by_alias, condition, conjunction, numbered, tells_apart
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.join.outer import OuterJoin
from anabranch.operators.join.windows import Window, latest


def canonical_join(join: WindowJoin) -> WindowJoin:
    """See the module."""
    aliases = _aliases(join)
    naming = by_alias(aliases)
    columns, time = numbered(join.columns, join.time)
    return replace(
        join,
        sources=tuple((aliases[alias], stream, conjunction(where)) for alias, stream, where in join.sources),
        windows=_windows(join),
        conditions=tuple(sorted({condition(sql, naming) for sql in join.conditions})),
        columns=tuple((name, as_named(sql, naming)) for name, sql in columns),
        time=time,
    )


def canonical_outer(outer: OuterJoin) -> OuterJoin:
    """The same for one that answers for rows without a partner; `RIGHT` and `LEFT` stay as they are written."""
    naming = by_alias(_aliases(outer.join))
    where = tuple(sorted({condition(sql, naming) for sql in outer.where}))
    return replace(outer, join=canonical_join(outer.join), where=where)


def canonical_aggregate(aggregate: WindowJoinAggregate) -> WindowJoinAggregate:
    """The same for aggregates over one: keys are `k0`, `k1`, aggregates `a0`, `a1` and so on."""
    naming = by_alias(_aliases(aggregate.join))
    inner = {name: f"k{place}" for place, (name, _) in enumerate(aggregate.keys)}
    inner |= {name: f"a{place}" for place, (name, _, _) in enumerate(aggregate.aggregates)}
    columns, time = numbered(aggregate.columns, aggregate.time)
    return replace(
        aggregate,
        join=canonical_join(aggregate.join),
        keys=tuple((inner[name], as_named(sql, naming)) for name, sql in aggregate.keys),
        aggregates=tuple(
            (inner[name], function, None if sql is None else as_named(sql, naming))
            for name, function, sql in aggregate.aggregates
        ),
        columns=tuple((name, as_named(sql, _by(inner))) for name, sql in columns),
        having=None if aggregate.having is None else condition(aggregate.having, _by(inner)),
        time=time,
    )


def _aliases(join: WindowJoin) -> dict[str, str]:
    """What each source is called; as it is written where the names of columns would not say whose they are."""
    written = join.aliases()
    if not tells_apart(written):
        return {alias: alias for alias in written}
    by_stream = sorted(join.sources, key=lambda source: source[1])
    return {alias: f"s{place}" for place, (alias, _, _) in enumerate(by_stream)}


def _by(names: Mapping[str, str]) -> Naming:
    return lambda name: names.get(name, name)


def _windows(join: WindowJoin) -> tuple[Window, ...]:
    """All that follows from the windows that are written; of rows they are the same for all pairs."""
    if join.unit == "rows":
        return tuple(sorted(join.windows))
    most = latest(len(join.sources), join.windows)
    return tuple((i, j, -most[j][i], most[i][j]) for i, j in combinations(range(len(join.sources)), 2))
