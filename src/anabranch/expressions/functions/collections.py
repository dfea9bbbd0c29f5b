"""Arrays, maps and structs, and functions of their elements."""

from __future__ import annotations

from sqlglot import exp

from anabranch.expressions import nested
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, left_to_spark

GROUP = "collections"
_ELEMENT = Rule(nested.element, "array, whole: an element", ("this", "expressions", "offset", "safe"))
_STRUCT = Rule(nested.struct, "values with names: STRUCT", ("expressions",))

COLLECTIONS = (
    ScalarFunction(
        "array",
        "An array of its arguments.",
        group=GROUP,
        rules={exp.Array: Rule(nested.array, "common type: ARRAY", ("expressions",))},
        example=Example("array(1, 2)", [1, 2]),
    ),
    ScalarFunction(
        "array_contains",
        "Whether an array holds a value.",
        group=GROUP,
        rules={exp.ArrayContains: Rule(nested.contains, "ARRAY, its elements' type: BOOLEAN", ("this", "expression"))},
        example=Example("array_contains(array('a', 'b'), 'b')", True),
    ),
    ScalarFunction(
        "array_size",
        "How many elements an array has; NULL has NULL.",
        group=GROUP,
        rules={exp.Anonymous: Rule(nested.array_size, "ARRAY: INT", ("this", "expressions"))},
        example=Example("array_size(array(1, 2))", 2),
    ),
    ScalarFunction(
        "size",
        "How many elements an array or a map has; NULL has -1.",
        group=GROUP,
        rules={exp.ArraySize: Rule(nested.size, "ARRAY: INT")},
        example=Example("size(array(1, 2))", 2),
    ),
    ScalarFunction(
        "cardinality",
        "The same as `size`.",
        group=GROUP,
        rules={exp.Anonymous: Rule(nested.size, "ARRAY: INT", ("this", "expressions"))},
        example=Example("cardinality(array(1, 2))", 2),
    ),
    ScalarFunction(
        "element_at",
        "The element at a place counted from 1, or from the end where it is below 0; or of a key.",
        group=GROUP,
        rules={exp.Bracket: _ELEMENT},
        example=Example("element_at(array(1, 2), -1)", 2),
    ),
    ScalarFunction(
        "struct",
        "A struct of its arguments.",
        group=GROUP,
        rules={exp.Struct: _STRUCT},
        example=Example("struct(1 AS a)", {"a": 1}),
    ),
    ScalarFunction(
        "named_struct",
        "A struct of names and values in turn.",
        group=GROUP,
        rules={exp.Struct: _STRUCT},
        example=Example("named_struct('a', 1)", {"a": 1}),
    ),
    ScalarFunction(
        "try_element_at",
        "As `element_at`, or NULL where there is none.",
        group=GROUP,
        rules={exp.Bracket: _ELEMENT},
        example=Example("try_element_at(array(1, 2), 3)", None),
    ),
    *left_to_spark(
        GROUP,
        """
aggregate, reduce: The elements of an array folded into one value.
array_append: The array with one more at its end.
array_compact: The array without NULLs.
array_distinct: The different elements.
array_except: The elements that are in the first array and not in the second.
array_insert: The array with a value put in at a place.
array_intersect: The elements that are in both arrays.
array_join: The elements as one text with something between them.
array_max: The largest element.
array_min: The smallest element.
array_position: The place of a value, or 0.
array_prepend: The array with one more at its beginning.
array_remove: The array without a value.
array_repeat: An array of a value so many times.
array_sort: The elements in order, perhaps one given by a comparison.
array_union: The elements that are in either array.
arrays_overlap: Whether two arrays have an element in common.
arrays_zip: An array of structs, one for each place of several arrays.
collect_union: The different elements of all arrays.
exists: Whether a condition holds for any element.
filter: The elements for which a condition holds.
flatten: An array of arrays as one.
forall: Whether a condition holds for all elements.
get: The element at a place counted from 0, or NULL.
map: A map of keys and values in turn.
map_concat: Several maps as one.
map_contains_key: Whether a map has a key.
map_entries: The keys and values of a map as an array of structs.
map_filter: The entries for which a condition holds.
map_from_arrays: A map of an array of keys and one of values.
map_from_entries: A map of an array of structs.
map_keys: The keys of a map.
map_values: The values of a map.
map_zip_with: Two maps put together by a function of key and values.
sequence: The values from one to another by steps.
slice: So many elements from a place on.
sort_array: The elements in order, ascending or descending.
str_to_map: A text as a map, by what separates entries and keys.
transform: The elements, each changed by a function.
transform_keys: The map with its keys changed by a function.
transform_values: The map with its values changed by a function.
zip_with: Two arrays put together by a function of both elements.
""",
    ),
)
