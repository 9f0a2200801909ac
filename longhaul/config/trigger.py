"""What a stage's trigger sends when an object is created, and for which objects. Imports no CDK."""

import json
from typing import Annotated, Final

from pydantic import Field, JsonValue, field_validator, model_validator

from longhaul.config.schedule import DATA_BUCKET
from longhaul.domain.paths import INTERNAL_PREFIX
from longhaul.domain.request import OBJECT
from longhaul.settings import Model

MAX_TEMPLATE: Final = 8_192
"""Source: `TransformerInput` (EventBridge API Reference)."""
_LONGEST_BUCKET: Final = "b" * 63  # the deployment makes the data bucket's name


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

    @field_validator("prefix")
    @classmethod
    def _not_ours(cls, value: str) -> str:
        if value.startswith(INTERNAL_PREFIX):
            raise ValueError(f"{INTERNAL_PREFIX} is Longhaul's own; name another prefix")
        return value

    @field_validator("request")
    @classmethod
    def _of_each_object(cls, value: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if "job_id" in value or "object" in value:
            raise ValueError("job_id and object are made for each object; leave them out")
        if "start_at" in value:
            raise ValueError(
                "start_at is one time, and objects come at many: leave it out; a job starts when "
                "its object has come"
            )
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

    @model_validator(mode="after")
    def _takes_the_template(self) -> "Trigger":
        # Otherwise the deployment fails at the rule, and rolls the stack back.
        length = len(self.template(_LONGEST_BUCKET))
        if length > MAX_TEMPLATE:
            raise ValueError(
                f"request makes a template of up to {length:,} characters with the names of bucket "
                f"and object; EventBridge takes {MAX_TEMPLATE:,}: shorten it, or put what is long "
                "into an object that the job reads"
            )
        return self

    def body(self, data_bucket: str) -> dict[str, JsonValue]:
        """The message's body, without the object."""
        body: dict[str, JsonValue] = json.loads(
            json.dumps(self.request).replace(DATA_BUCKET, data_bucket)
        )
        return body

    def template(self, data_bucket: str) -> str:
        """What EventBridge sends, with the names of the objects that it puts in."""
        body = json.dumps(self.body(data_bucket), ensure_ascii=False, separators=(",", ":"))
        made = '{"bucket":<detail-bucket>,"object":<detail-object>}'
        return f'{body[:-1]},"object":{made}}}'

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
