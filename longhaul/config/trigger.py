"""What a stage's trigger sends when an object is created, and for which objects. Imports no CDK."""

import json
from typing import Annotated

from pydantic import Field, JsonValue, field_validator

from longhaul.config.schedule import DATA_BUCKET
from longhaul.core.request import OBJECT
from longhaul.core.settings import Model


class Trigger(Model):
    """A job for each object that is created: one message to the stage's queue."""

    # None: the data bucket. Another bucket's owner lets it send events (docs/daily.md).
    bucket: str | None = None
    # Of the objects' keys: one or more folders.
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9._=-]*/)+$")]
    # How the keys end. Empty: any.
    suffix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._=-]*$")] = ""
    # The message's body, in which `{object}` is the object's path, and `{object.id}` the job's id.
    request: dict[str, JsonValue] = Field(min_length=1)

    @field_validator("request")
    @classmethod
    def _of_each_object(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "job_id" in value or "object" in value:
            raise ValueError("job_id and object are made for each object; leave them out")
        if OBJECT not in json.dumps(value.get("inputs", {})):
            raise ValueError(f"no input is {OBJECT}: the job would not see its object")
        # An output to which each job adds may be the same for all: a table, most likely.
        outputs = value.get("outputs")
        places = [value.get("output", ""), *(outputs.values() if isinstance(outputs, dict) else ())]
        if value.get("mode") != "append" and any("{object.id}" not in str(p) for p in places):
            raise ValueError(
                "output must hold {object.id}, and each of outputs too: with the same one for each "
                "object, every job would replace the output of the last; or let mode be append"
            )
        if "<" in json.dumps(value).replace(DATA_BUCKET, ""):
            raise ValueError(f"'<' begins a keyword of EventBridge; allowed: {DATA_BUCKET}")
        return value

    def body(self, data_bucket: str) -> dict[str, JsonValue]:
        """The message's body, without the object."""
        body: dict[str, JsonValue] = json.loads(
            json.dumps(self.request).replace(DATA_BUCKET, data_bucket)
        )
        return body

    def example(self, data_bucket: str) -> dict[str, JsonValue]:
        """A body as EventBridge might send it."""
        return {
            **self.body(data_bucket),
            "object": {
                "bucket": {"name": self.bucket or data_bucket},
                "object": {
                    "key": f"{self.prefix}file{self.suffix}",
                    "etag": "b1946ac92492d2347c6235b4d2611184",
                },
            },
        }
