"""Batches of JSON texts, checked and parsed by Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

_COMPACT = r'^\{(?:[{}\[\]:,0-9+\-.eEtrufalsn]|"(?:[^\x00-\x1f"\\\x{d800}-\x{dfff}]|\\["\\bfnrt])*")*\}$'
"""Matches what may be an object in compact JSON that an encoder would not write in another way.

Without the letters of NaN and Infinity, which Arrow's parser takes, and surrogates, which RE2 takes for characters.
"""

_NESTED, _NESTED_MOST = 1000, 400
"""Number of characters from which the depth of JSON is checked, and its limit: Python refuses above about 1,000."""

_LONG, _DIGITS = 4000, r"[0-9]{1000}"
"""Number of characters from which numbers are checked: Python refuses more than 4,300 digits."""


def are_objects(texts: pa.Array) -> bool:
    """Return whether texts with the characters of compact JSON are objects, one each."""
    # Fields that no schema names are parsed, and not kept.
    found = json_lines(texts, pa.schema([]), "ignore")
    return found is not None and found.num_rows == len(texts)


def may_be_compact(texts: pa.Array, most: int) -> bool:
    """Return whether all texts have the characters of an object in compact JSON, one that Python can parse."""
    if not pa.types.is_string(texts.type) or texts.null_count:
        return False
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest > most or not pc.all(pc.match_substring_regex(texts, _COMPACT)).as_py():
        return False
    if longest > _NESTED:
        opened = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
        if pc.max(opened).as_py() > _NESTED_MOST:
            return False
    return longest <= _LONG or not pc.any(pc.match_substring_regex(texts, _DIGITS)).as_py()


def json_lines(texts: pa.Array, fields: pa.Schema, others: str) -> pa.Table | None:
    """Return the objects in these texts, each without a line break, as one chunk; None if they are no JSON.

    `others`: handling of fields besides these: "ignore" or "error". More objects than texts mean that one has two.
    """
    lines = pc.binary_join_element_wise(texts, "", "\n")
    longest = pc.max(pc.binary_length(texts)).as_py()
    reading = pa.json.ReadOptions(use_threads=False, block_size=max(1 << 20, 2 * longest))
    parsing = pa.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior=others)
    try:
        return pa.json.read_json(pa.BufferReader(lines.buffers()[2]), reading, parsing)
    except pa.ArrowInvalid:
        return None
