"""Joins settings, clients, adapters and use cases: the one place that does, once per process.

Each part is imported when it is first used: a function has one use case of its own, and a command
needs few of these.
"""

import random
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from longhaul.core.background import Threads
from longhaul.core.clients import NOTIFYING, PUBLISHING, Clients, SystemClock
from longhaul.core.settings import RuntimeSettings, runtime_settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from longhaul.core.dispatch import Dispatcher
    from longhaul.core.executions import SfnExecutions
    from longhaul.core.finish import Finisher
    from longhaul.core.giving_up import GivingUp
    from longhaul.core.heartbeat import Heartbeat
    from longhaul.core.metrics import EmfMetrics
    from longhaul.core.objects import S3Requests
    from longhaul.core.ports import Context, Tasks
    from longhaul.core.queue import SqsQueue
    from longhaul.core.settle import Settler
    from longhaul.core.store.leases import DynamoLeases
    from longhaul.core.store.records import DynamoTroubles, Records
    from longhaul.core.store.slots import DynamoSlots
    from longhaul.core.sweep import Sweeper
    from longhaul.notices.announcer import Announcer
    from longhaul.notices.targets import AwsNotices
    from longhaul.notices.untold import DynamoUntold
    from longhaul.outputs.publication import Publication
    from longhaul.outputs.publisher import S3Publisher
    from longhaul.pipelines.backfills import DynamoBackfills
    from longhaul.pipelines.joins import DynamoJoins
    from longhaul.pipelines.tree_ends import TreeEnds
    from longhaul.saved.keeper import Keeper

MOST_ROWS = 11
"""Rows in an answer to a function: of a batch of messages and its slots.

A row may be forged: 400 KB of values of one byte take 75 MiB while they are parsed. Functions have
1 GB, and only one answer is held at a time.
"""


class Wiring:
    """Each part on first use."""

    def __init__(
        self,
        settings: RuntimeSettings,
        client: Callable[..., Any] | None = None,
        *,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """`client` makes boto3's clients; `most_rows` bounds the rows in an answer of DynamoDB."""
        self.settings = settings
        self._clients = Clients(settings.endpoint_url, client)
        self.clock = SystemClock()
        self.background = Threads()
        self.rng = random.Random()  # noqa: S311 - jitter, not secrets
        self._most_rows = most_rows

    @cached_property
    def _s3(self) -> "S3Client":
        client: S3Client = self._clients.client("s3", PUBLISHING)
        return client

    @cached_property
    def records(self) -> "Records":
        from longhaul.core.store.records import Records

        client = self._clients.client("dynamodb")
        table, most = self.settings.leases_table, self._most_rows
        return Records(client, table, self.clock, self.rng, most=most)

    @cached_property
    def leases(self) -> "DynamoLeases":
        from longhaul.core.store.leases import DynamoLeases

        return DynamoLeases(self.records)

    @cached_property
    def slots(self) -> "DynamoSlots":
        from longhaul.core.store.slots import DynamoSlots

        return DynamoSlots(self.records)

    @cached_property
    def joins(self) -> "DynamoJoins":
        from longhaul.pipelines.joins import DynamoJoins

        return DynamoJoins(self.records)

    @cached_property
    def queue(self) -> "SqsQueue":
        from longhaul.core.queue import SqsQueue

        return SqsQueue(self._clients.client("sqs"))

    @cached_property
    def executions(self) -> "SfnExecutions":
        from longhaul.core.executions import SfnExecutions

        return SfnExecutions(self._clients.client("stepfunctions"), self.settings.state_machine_arn)

    @cached_property
    def tasks(self) -> "Tasks":
        from longhaul.engines.aws_lambda.ends import LAMBDA
        from longhaul.engines.aws_lambda.tasks import Invocations
        from longhaul.engines.emr_serverless.ends import EMR_SERVERLESS
        from longhaul.engines.emr_serverless.tasks import EmrJobRuns
        from longhaul.engines.fargate.ends import FARGATE
        from longhaul.engines.fargate.tasks import EcsTasks
        from longhaul.engines.tasks import AllTasks

        engines: dict[str, Tasks] = {
            FARGATE.name: EcsTasks(self._clients.client("ecs"), self.settings.cluster_arn),
            LAMBDA.name: Invocations(self.leases.aws_time),
        }
        if application := self.settings.emr_serverless:
            client = self._clients.client("emr-serverless")
            engines[EMR_SERVERLESS.name] = EmrJobRuns(client, application.application_arn)
        return AllTasks(engines)

    @cached_property
    def requests(self) -> "S3Requests":
        from longhaul.core.objects import S3Requests

        return S3Requests(self._s3, self.settings.paths.data_bucket)

    @cached_property
    def publisher(self) -> "S3Publisher":
        from longhaul.outputs.lazy_tables import tables_of
        from longhaul.outputs.publisher import S3Publisher

        paths = self.settings.paths
        # Also without databases: an output may be older than the setting.
        tables = tables_of(lambda: self._clients.client("glue"), self._s3, paths.data_bucket)
        return S3Publisher(self._s3, paths.data_bucket, self.clock, self.background, tables)

    @cached_property
    def notices(self) -> "AwsNotices":
        from longhaul.notices.targets import AwsNotices

        return AwsNotices(cache(self._notifier))

    def _notifier(self, service: str, region: str) -> Any:  # noqa: ANN401 - any client
        return self._clients.client(service, NOTIFYING, region_name=region)

    @cached_property
    def metrics(self) -> "EmfMetrics":
        from longhaul.core.metrics import EmfMetrics

        return EmfMetrics(self.settings.metrics_namespace)

    @cached_property
    def troubles(self) -> "DynamoTroubles":
        from longhaul.core.store.records import DynamoTroubles

        return DynamoTroubles(self.records)

    @cached_property
    def untold(self) -> "DynamoUntold":
        from longhaul.notices.untold import DynamoUntold

        return DynamoUntold(self.records)

    @cached_property
    def backfills(self) -> "DynamoBackfills":
        from longhaul.pipelines.backfills import DynamoBackfills

        return DynamoBackfills(self.records)

    @cached_property
    def context(self) -> "Context":
        from longhaul.core.ports import Context
        from longhaul.engines.listed import ENGINES

        return Context(
            settings=self.settings,
            engines=ENGINES,
            clock=self.clock,
            rng=self.rng,
            background=self.background,
            leases=self.leases,
            slots=self.slots,
            troubles=self.troubles,
            queue=self.queue,
            executions=self.executions,
            tasks=self.tasks,
            requests=self.requests,
            metrics=self.metrics,
        )

    @cached_property
    def giving_up(self) -> "GivingUp":
        from longhaul.core.giving_up import GivingUp

        return GivingUp(context=self.context)

    @cached_property
    def announcer(self) -> "Announcer":
        from longhaul.notices.announcer import Announcer

        return Announcer(
            context=self.context,
            notices=self.notices,
            untold=self.untold,
            publisher=self.publisher,
        )

    @cached_property
    def tree_ends(self) -> "TreeEnds":
        from longhaul.pipelines.tree_ends import TreeEnds

        return TreeEnds(
            context=self.context,
            joins=self.joins,
            backfills=self.backfills,
            announcer=self.announcer,
        )

    @cached_property
    def publication(self) -> "Publication":
        from longhaul.outputs.publication import Publication

        return Publication(context=self.context, publisher=self.publisher)

    @cached_property
    def keeper(self) -> "Keeper":
        from longhaul.saved.keeper import Keeper
        from longhaul.saved.store import S3SavedWork

        store = S3SavedWork(self._s3, self.settings.paths.data_bucket)
        return Keeper(context=self.context, store=store)

    @cached_property
    def finisher(self) -> "Finisher":
        from longhaul.core.finish import Finisher
        from longhaul.pipelines.following import Following

        return Finisher(
            context=self.context,
            publication=self.publication,
            follow_ons=Following(context=self.context, joins=self.joins, giving_up=self.giving_up),
            trees=self.tree_ends,
            saved=self.keeper,
            announcer=self.announcer,
            giving_up=self.giving_up,
        )

    @cached_property
    def settler(self) -> "Settler":
        from longhaul.core.settle import Settler

        return Settler(context=self.context, finisher=self.finisher, giving_up=self.giving_up)

    @cached_property
    def dispatcher(self) -> "Dispatcher":
        from longhaul.core.dispatch import Claimer, Dispatcher, Messages
        from longhaul.pipelines.descent_check import DescentCheck

        context = self.context
        descent = DescentCheck(context=context, joins=self.joins)
        messages = Messages(
            context=context,
            announcer=self.announcer,
            finisher=self.finisher,
            giving_up=self.giving_up,
        )
        return Dispatcher(
            context=context,
            messages=messages,
            claimer=Claimer(context=context, messages=messages, descent=descent),
            settler=self.settler,
            finisher=self.finisher,
            descent=descent,
        )

    @cached_property
    def heartbeat(self) -> "Heartbeat":
        from longhaul.core.heartbeat import Heartbeat

        return Heartbeat(context=self.context)

    @cached_property
    def sweeper(self) -> "Sweeper":
        from longhaul.core.sweep import Sweeper

        return Sweeper(
            context=self.context,
            settler=self.settler,
            finisher=self.finisher,
            giving_up=self.giving_up,
            features=(
                self.tree_ends.look_after,
                self.announcer.look_after,
                self.publication.look_after,
                self.keeper.look_after,
            ),
        )


def wiring() -> Wiring:
    """The parts for this process's settings."""
    return Wiring(runtime_settings())
