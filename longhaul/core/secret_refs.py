"""Where a secret of a stage is: in Secrets Manager, or a parameter of SSM. Pure."""

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

# A name that CloudFormation will give. At synth it may stand for a part of an ARN, or for the whole
# ARN of a secret.
_TO_COME: Final = r"\$\{Token\[[^\]]+\]\}"
_WHERE: Final = rf"(?:[a-z0-9-]+|{_TO_COME})"
_ACCOUNT: Final = rf"(?:\d{{12}}|{_TO_COME})"
_HEAD: Final = rf"arn:(?:aws[a-z-]*|{_TO_COME})"
# As ECS has it: a JSON key, a version's stage and a version's id follow the ARN.
_SECRET: Final = re.compile(
    rf"(?P<arn>{_HEAD}:secretsmanager:(?P<region>{_WHERE}):{_ACCOUNT}:secret:"
    rf"(?:[\w/+=.@!-]+-[A-Za-z0-9]{{6}}|[\w/+=.@!-]*{_TO_COME}[\w/+=.@!-]*)|{_TO_COME})"
    r"(?::(?P<key>[^:]*):(?P<stage>[^:]*):(?P<id>[^:]*))?"
)
_PARAMETER: Final = re.compile(
    rf"(?P<arn>{_HEAD}:ssm:(?P<region>{_WHERE}):{_ACCOUNT}:parameter/?"
    rf"(?:[\w./-]|{_TO_COME})+)"
)


@dataclass(frozen=True)
class SecretRef:
    """`arn` is without what follows it in a setting; the three others are empty if not said.

    `region` is empty where CloudFormation will say it.
    """

    service: Literal["secretsmanager", "ssm"]
    arn: str
    region: str
    key: str = ""
    version_stage: str = ""
    version_id: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read it as a setting has it.

        Raises:
            ValueError: it names no secret and no parameter.
        """
        if found := _PARAMETER.fullmatch(text):
            return cls("ssm", found["arn"], _known(found["region"]))
        if found := _SECRET.fullmatch(text):
            said = (found["key"] or "", found["stage"] or "", found["id"] or "")
            if said[1] and said[2]:
                raise ValueError(f"{text!r} names a version by its stage and by its id: name one")
            return cls("secretsmanager", found["arn"], _known(found["region"]), *said)
        # What is no ARN may be the secret itself, and the error goes to the log of a build.
        shown = repr(text) if text.startswith("arn:") else "this"
        raise ValueError(
            f"{shown} is neither the ARN of a secret "
            "(arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-xxxxxx, with the six characters "
            "at its end, and with :KEY:: for a key of its JSON) nor of a parameter "
            "(arn:aws:ssm:REGION:ACCOUNT:parameter/NAME)"
        )


def _known(region: str | None) -> str:
    return "" if region is None or "$" in region else region
