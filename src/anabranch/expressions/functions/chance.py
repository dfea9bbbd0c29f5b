"""Functions that draw lots: a standing query cannot have them."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import left_to_spark

CHANCE = left_to_spark(
    "chance",
    """
rand, random: A number from 0 to below 1.
randn: A number of the standard normal distribution.
randstr: A text of so many characters.
shuffle: The elements of an array in any order.
uniform: A number between two others.
uuid: An identifier that nobody else has.
""",
    varies="always",
)
