"""Points on a map, and vectors."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import left_to_spark

PLACES = left_to_spark(
    "places and vectors",
    """
st_asbinary: A place on the globe or plane as well-known binary.
st_geogfromwkb: A place on the globe of well-known binary.
st_geomfromwkb: A place on the plane of well-known binary.
st_setsrid: The place in another system of reference.
st_srid: The number of the system of reference.
vector_avg: The average of vectors.
vector_cosine_similarity: The cosine of the angle between two vectors.
vector_inner_product: The inner product of two vectors.
vector_l2_distance: How far two vectors are apart.
vector_norm: The length of a vector.
vector_normalize: The vector of length 1 in the same direction.
vector_sum: The sum of vectors.
""",
)
