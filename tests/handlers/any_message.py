"""Messages that anybody might send: hypothesis draws bodies and attributes, most of them wrong.

Texts have the characters that SQS takes. A body is any text, any JSON, or a request with some
fields replaced; the values are those that have broken something, and any others.
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from longhaul.core.message import EXPLANATION, FIRST_SENT, JOB_ID, RENEWS
from longhaul.core.request import JobRequest
from tests.builders import BODY, BUCKET

# The characters of a message, as SendMessage documents them.
TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r"),
    max_size=80,
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXT
    | st.sampled_from(
        [
            *("", "#", "/", "..", "s3://", f"s3://{BUCKET}/longhaul/x", f"s3://{BUCKET}/a/", "7d"),
            *(10**400, -1, 2**63, 1e308, "9" * 4_000, "a" * 3_000, "\u2028", "main#x", "main"),
        ]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(TEXT | st.sampled_from(list(JobRequest.model_fields)), inner, max_size=4)
    ),
    max_leaves=12,
)
LINEAGE = st.fixed_dictionaries(
    {},
    optional={
        "root": SCALARS,
        "parent": SCALARS,
        "groups": st.lists(
            st.fixed_dictionaries({}, optional=dict.fromkeys(("of", "run", "n", "size"), SCALARS)),
            max_size=3,
        ),
    },
)


def _changed(changes: Mapping[str, Any]) -> str:
    return json.dumps({**BODY, **changes})


HARMLESS = st.fixed_dictionaries(
    {},
    optional={
        "params": st.dictionaries(TEXT, JSON, max_size=3),
        "job_id": st.from_regex(r"[A-Za-z0-9._:-]{1,9}", fullmatch=True),
        "timeout": st.sampled_from(["90s", "1d"]),
    },
)
BODIES = (
    TEXT.filter(bool)
    | HARMLESS.map(_changed)
    | JSON.map(json.dumps)
    | st.dictionaries(
        st.sampled_from(list(JobRequest.model_fields)), JSON | SCALARS, max_size=3
    ).map(_changed)
    | LINEAGE.map(lambda lineage: _changed({"lineage": lineage}))
    | st.sampled_from(["[" * 5_000, '{"a":' * 5_000, '{"n": ' + "9" * 5_000 + "}", "\ufeff{}"])
)


def message_attribute(value: str | bytes) -> dict[str, Any]:
    """As a record of the mapping has it."""
    if isinstance(value, bytes):
        return {"dataType": "Binary", "binaryValue": base64.b64encode(value).decode()}
    return {"dataType": "String", "stringValue": value}


_OUR_NAMES = (
    JOB_ID,
    FIRST_SENT,
    RENEWS,
    EXPLANATION,
)
_NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True) | st.sampled_from(_OUR_NAMES)
_VALUES = (
    TEXT.filter(bool)
    | JSON.map(json.dumps)
    | st.dictionaries(_NAMES, JSON, max_size=3).map(json.dumps)
    | st.sampled_from(
        ["9" * 400, "-1", "0001-01-01T00:00+23:59", "٣", "1e9", "NaN", '{"x":{}}', "null"]
    )
)
ATTRIBUTES = st.dictionaries(
    _NAMES,
    (_VALUES | st.binary(min_size=1, max_size=20)).map(message_attribute)
    | _VALUES.map(lambda value: {"dataType": "Number.x", "stringValue": value}),
    max_size=10,
)
