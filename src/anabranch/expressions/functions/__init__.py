"""The one table of functions that are no aggregates: one file for each group, one row for each function.

All of Spark's functions that only compute from their arguments are here. Left out is whatever reads files, calls into
the JVM, looks at the session, or makes rows out of nothing.
"""

from __future__ import annotations

from anabranch.expressions.functions.bits import BITS
from anabranch.expressions.functions.chance import CHANCE
from anabranch.expressions.functions.choice import CHOICE
from anabranch.expressions.functions.collections import COLLECTIONS
from anabranch.expressions.functions.conversions import CONVERSIONS
from anabranch.expressions.functions.declaring import ScalarFunction, by_name
from anabranch.expressions.functions.documents import DOCUMENTS
from anabranch.expressions.functions.numbers import NUMBERS
from anabranch.expressions.functions.places import PLACES
from anabranch.expressions.functions.several_rows import SEVERAL_ROWS
from anabranch.expressions.functions.sketches import SKETCHES
from anabranch.expressions.functions.text import TEXT
from anabranch.expressions.functions.times import TIMES

SCALARS: dict[str, ScalarFunction] = by_name(
    [NUMBERS, TEXT, TIMES, CHOICE, CONVERSIONS, COLLECTIONS, DOCUMENTS, BITS, CHANCE, SEVERAL_ROWS, SKETCHES, PLACES]
)
"""Every function that is no aggregate, by each of its names."""
