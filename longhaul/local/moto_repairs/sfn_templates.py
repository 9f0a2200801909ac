"""State machines of a template can be executed.

AWS: a state machine made by CloudFormation can be executed. `DefinitionSubstitutions` replace
`${name}` in its definition.

Stock moto: CloudFormation makes it in a backend that executes nothing. StartExecution goes to the
interpreter and does not find it. `DefinitionSubstitutions` and `StateMachineType` are ignored.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

import json
import re
from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.core.config import default_user_config
from moto.stepfunctions import models
from moto.stepfunctions.parser.models import stepfunctions_parser_backends
from moto.stepfunctions.utils import cfn_to_api_tags

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    patches.replace(models, "stepfunctions_backends", stepfunctions_parser_backends)
    patches.replace(models.StateMachine, "create_from_cloudformation_json", classmethod(_create))
    # moto's own switch for the interpreter.
    patches.replace_item(default_user_config, "stepfunctions", {"execute_state_machine": True})


def _create(
    _cls: Any,
    /,
    resource_name: str,
    cloudformation_json: Any,
    account_id: str,
    region_name: str,
    **_kwargs: Any,
) -> Any:
    properties = cloudformation_json["Properties"]
    return stepfunctions_parser_backends[account_id][region_name].create_state_machine(
        properties.get("StateMachineName", resource_name),
        _definition(properties),
        properties["RoleArn"],
        tags=cfn_to_api_tags(properties.get("Tags", [])),
        sm_type=properties.get("StateMachineType"),
    )


def _definition(properties: dict[str, Any]) -> str:
    if "DefinitionString" in properties:
        text = str(properties["DefinitionString"])
    elif "Definition" in properties:
        text = json.dumps(properties["Definition"])
    else:
        raise ValidationError(
            message="a state machine of the template needs DefinitionString or Definition: "
            "DefinitionS3Location is not read here"
        )
    substitutions = properties.get("DefinitionSubstitutions", {})
    return re.sub(r"\$\{(\w+)\}", lambda match: str(substitutions.get(match[1], match[0])), text)
