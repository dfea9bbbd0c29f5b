"""JSON, CSV, VARIANT and addresses: documents in a column."""

from __future__ import annotations

from anabranch.expressions.functions.declaring import left_to_spark

DOCUMENTS = left_to_spark(
    "documents",
    """
from_csv: A line of CSV as a struct.
from_json: A JSON text as a value of a type.
get_json_object: What stands at a path of a JSON text.
is_valid_variant: Whether the bytes of a VARIANT are well-formed.
is_variant_null: Whether a VARIANT is the null of JSON.
json_array_length: How many elements a JSON array has.
json_object_keys: The keys of a JSON object.
json_tuple: What several keys of a JSON object have, as columns.
parse_json: A JSON text as VARIANT.
parse_url: A part of a URL.
schema_of_csv: The type of a line of CSV.
schema_of_json: The type of a JSON text.
schema_of_variant: The type of a VARIANT.
schema_of_variant_agg: The type that holds all VARIANTs.
to_csv: A struct as a line of CSV.
to_json: A value as JSON text.
to_variant_object: A value as VARIANT.
try_parse_json: As `parse_json`, or NULL where it is none.
try_parse_url: As `parse_url`, or NULL where it is none.
try_url_decode: As `url_decode`, or NULL where it is none.
try_variant_array_append: As `variant_array_append`, or NULL where it cannot be.
try_variant_get: As `variant_get`, or NULL where it cannot be.
try_variant_insert: As `variant_insert`, or NULL where it cannot be.
try_variant_set: As `variant_set`, or NULL where it cannot be.
url_decode: A text of a URL without its escapes.
url_encode: A text with escapes, for a URL.
variant_array_append: The VARIANT with one more at the end of an array.
variant_delete: The VARIANT without what stands at a path.
variant_get: What stands at a path of a VARIANT, as a type.
variant_insert: The VARIANT with a value put in at a path.
variant_set: The VARIANT with a value at a path.
variant_strip_nulls: The VARIANT without nulls.
""",
)
