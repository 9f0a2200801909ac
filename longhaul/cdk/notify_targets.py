"""Queues, topics and event buses of the same app that are told when jobs have ended."""

from collections.abc import Mapping
from typing import Final

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs

from longhaul.config.errors import SettingsError
from longhaul.config.settings import Settings

NotifyTarget = sqs.IQueue | sns.ITopic | events.IEventBus


# Of a queue, a topic and a bus: its ARN, and what lets a role tell it. jsii's interfaces cannot be
# asked with `isinstance`.
_OF_A_KIND: Final = {
    "queue_arn": "grant_send_messages",
    "topic_arn": "grant_publish",
    "event_bus_arn": "grant_put_events_to",
}


def with_targets(settings: Settings, targets: Mapping[str, NotifyTarget], where: str) -> Settings:
    """The settings, in which each of these stages notifies its target.

    Args:
        settings: those of the construct.
        targets: by the stage's name.
        where: the construct's path, for messages.

    Raises:
        SettingsError: there is no such stage, its settings name a target too, or one has
            `openlineage` or `tree_ended` and no target.
    """
    stages = {stage.name: stage for stage in settings.stages}
    for name, target in targets.items():
        if name not in stages:
            raise SettingsError(
                f"{where}: notify: there is no stage {name!r}; there are: {', '.join(stages)}"
            )
        if stages[name].advanced.notify is not None:
            raise SettingsError(
                f"{where}: notify: the settings of stage {name!r} name one too; give one of them"
            )
        # Not checked again: CloudFormation's references are no names yet.
        advanced = stages[name].advanced.model_copy(update={"notify": _arn(target)})
        stages[name] = stages[name].model_copy(update={"advanced": advanced})
    for stage in stages.values():
        for also in ("openlineage", "tree_ended"):
            if getattr(stage.advanced, also) and stage.advanced.notify is None:
                raise SettingsError(
                    f"{where}: stage {stage.name!r} has {also}, and nothing to send its events to:"
                    " name a queue, a topic or a bus in notify"
                )
    return settings.model_copy(update={"stages": tuple(stages.values())})


def grant(target: NotifyTarget, role: iam.IRole) -> None:
    """Let the role tell the target, and use its key where it has one."""
    for arn, method in _OF_A_KIND.items():
        if hasattr(target, arn):
            getattr(target, method)(role)


def _arn(target: NotifyTarget) -> str:
    return next(str(getattr(target, arn)) for arn in _OF_A_KIND if hasattr(target, arn))
