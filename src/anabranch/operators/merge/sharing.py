"""A merge as others have it, too: what is matched, and what one query wants of the records that were merged.

WHERE and the columns of the answer are about merged records and take no part in the matching. So merges that differ in
nothing else match alike, if they began with the same rows. Sources are called `s0`, `s1` and so on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.expressions.atoms import atoms_of
from anabranch.operators.base import Shared
from anabranch.operators.canonical import as_named, by_alias, tells_apart
from anabranch.operators.join.rows import named
from anabranch.operators.merge.program import TIME
from anabranch.schema import TIME_TYPE

if TYPE_CHECKING:
    from anabranch.operators.merge.operator import Merge


def shared_merge(merge: Merge, schema_of: Callable[[str], pa.Schema]) -> Shared:
    """See the module; the merge answers with all columns of all sources."""
    aliases = _aliases(merge)
    naming = by_alias(aliases)
    sources = tuple((aliases[alias], stream) for alias, stream in merge.sources)
    everything = pa.unify_schemas([named(alias, schema_of(stream)) for alias, stream in sources])
    everything = everything.append(pa.field(TIME, TIME_TYPE))
    common = replace(
        merge,
        sources=sources,
        keys=tuple(
            tuple((as_named(a, naming), as_named(b, naming), tolerance) for a, b, tolerance in keys)
            for keys in merge.keys
        ),
        by=tuple(tuple((as_named(a, naming), as_named(b, naming)) for a, b in equal) for equal in merge.by),
        conditions=(),
        columns=tuple((name, _quoted(name)) for name in everything.names),
        time=TIME,
    )
    conditions = [as_named(sql, naming) for sql in merge.conditions]
    computed = [any(atom.computed for atom in atoms_of(sql, everything)) for sql in conditions]
    first = max((place + 1 for place, is_computed in enumerate(computed) if is_computed), default=0)
    columns = tuple((name, as_named(sql, naming)) for name, sql in merge.columns)
    return Shared(common, everything, tuple(conditions[:first]), tuple(conditions[first:]), columns)


def _aliases(merge: Merge) -> dict[str, str]:
    """What each source is called; as it is written where the names of columns would not say whose they are."""
    written = merge.aliases()
    if not tells_apart(written):
        return {alias: alias for alias in written}
    return {alias: f"s{place}" for place, alias in enumerate(written)}


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
