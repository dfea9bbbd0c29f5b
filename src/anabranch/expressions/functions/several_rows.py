"""What makes several rows of one, or looks at several: for questions that are asked once."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import ScalarFunction, left_to_spark

GROUP = "several rows"

SEVERAL_ROWS = (
    ScalarFunction(
        "window",
        "The window of a length, perhaps with a slide, in which a time lies; in `GROUP BY` it says windows.",
        group=GROUP,
        takes_times=True,
    ),
    *left_to_spark(
        GROUP,
        """
cume_dist: The share of rows that come before or with this one.
dense_rank: The rank of a row without gaps.
explode: A row for each element of an array or a map.
explode_outer: A row for each element, or one with NULL.
inline: A row for each struct of an array.
inline_outer: A row for each struct of an array, or one with NULL.
lag: The value of a row so many before.
lead: The value of a row so many behind.
nth_value: The value of the n-th row.
ntile: Which of so many parts of equal size a row is in.
percent_rank: The rank of a row as a share.
posexplode: A row for each element, with its place.
posexplode_outer: A row for each element, with its place, or one with NULL.
rank: The rank of a row.
row_number: The number of a row.
session_window: The session in which a time lies.
stack: Its arguments as so many rows.
variant_explode: A row for each element of a VARIANT.
variant_explode_outer: A row for each element of a VARIANT, or one with NULL.
window_time: The time of a window.
""",
    ),
)
