"""The embedded AWS: moto in this process on loopback, and beside it what moto does not do.

    with EmbeddedAws() as aws:
        outputs = aws.deploy(synth(aws.work_dir / "cdk.out"), "Longhaul")

The deployed template is the one that `cdk deploy` would send. moto holds the state of all services; functions, tasks, event source mappings and rules are
driven by `lambda_driver`, `ecs_driver`, `emr_driver`, `esm_poller` and `event_driver`; `moto_repairs` makes moto as strict as AWS where a lease depends on it.
"""

import shutil
from functools import cache
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Self

from moto.awslambda.models import lambda_backends
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.moto_api._internal.models import moto_api_backend

from local.assembly import Deployer
from local.credentials import aws_client
from local.ecs_driver import EcsDriver
from local.emr_driver import EmrDriver
from local.esm_poller import EsmPoller
from local.event_driver import EventDriver
from local.http_services import LOOPBACK, HttpServices
from local.lambda_driver import LambdaDriver
from local.log_shipper import LogShipper
from local.moto_repairs import (
    cfn_unsupported,
    dynamodb_atomic,
    ecs_resources,
    ecs_task_size,
    ecs_tasks,
    emr_applications,
    emr_job_runs,
    lambda_invocation,
    s3_conditional,
    s3_uploads,
    sfn_clients,
    sfn_ecs_sync,
    sfn_emr_sync,
    sfn_errors,
    sfn_interrupts,
    sfn_parameters,
    sfn_parse_once,
    sfn_start_stop,
    sfn_templates,
    sfn_threads,
    sqs_limits,
    sqs_receipts,
    sqs_receive,
    sqs_trigger,
)
from local.moto_repairs.patching import Patches
from local.moto_server import MotoServer
from local.running import DEFAULT_WORK_DIR, REGION
from local.synth import REPOSITORY

_one_at_a_time = Lock()


class EmbeddedAws:
    """One per process at a time, because moto's state is the process's."""

    def __init__(
        self,
        port: int = 0,
        work_dir: Path = DEFAULT_WORK_DIR,
        task_dir: Path = REPOSITORY,
        host: str = LOOPBACK,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            port: 0 picks a free one.
            work_dir: logs and extracted code; what an earlier run left of them is removed at `start`. `work_dir.occupied` keeps others out of it.
            task_dir: where tasks run their commands.
            host: the address to listen on. Whoever reaches it can have commands run on this machine.
        """
        self.region = REGION
        self.account = DEFAULT_ACCOUNT_ID
        self.work_dir = work_dir.resolve()
        self._host = host
        self._port = port
        self._task_dir = task_dir
        self._running = False

    @property
    def endpoint(self) -> str:
        """For `AWS_ENDPOINT_URL`. Known once started."""
        return f"http://{self._host}:{self._port}"

    def start(self) -> Self:
        """Serve.

        Raises:
            RuntimeError: another embedded AWS runs in this process.
            OSError: the port is taken.
        """
        if not _one_at_a_time.acquire(blocking=False):
            raise RuntimeError(
                "an embedded AWS runs in this process already, and moto's state is the process's: stop it first"
            )
        try:
            for leftover in ("functions", "tasks", "job-runs", "spark"):
                shutil.rmtree(self.work_dir / leftover, ignore_errors=True)
            self.work_dir.mkdir(parents=True, exist_ok=True)
            self._server = MotoServer(self._port, self._host)
            self._port = self._server.port
            self._patches = Patches()
            self._closing = Event()
            self._services = HttpServices()
            self.functions = LambdaDriver(
                endpoint=self.endpoint, region=self.region, work_dir=self.work_dir, services=self._services
            )
            self._shipper = LogShipper(self.account, self.region)
            self.tasks = EcsDriver(
                endpoint=self.endpoint,
                region=self.region,
                work_dir=self.work_dir,
                services=self._services,
                cwd=self._task_dir,
                shipper=self._shipper,
            )
            self.job_runs = EmrDriver(
                endpoint=self.endpoint, region=self.region, work_dir=self.work_dir, shipper=self._shipper
            )
            self._mappings = EsmPoller(account=self.account, region=self.region, invoker=self.functions)
            self._events = EventDriver(account=self.account, region=self.region, invoker=self.functions)
            self._repair()
        except BaseException:
            _one_at_a_time.release()
            raise
        self._running = True
        return self

    def deploy(self, assembly_dir: Path, stack_name: str) -> dict[str, str]:
        """Create the stack of a cloud assembly and begin to drive it.

        Returns:
            the stack's outputs.

        Raises:
            DeployError: the stack could not be created.
            NotImplementedError: the template asks for what is not driven here.
        """
        outputs = Deployer(endpoint=self.endpoint, region=self.region, account=self.account).deploy(
            assembly_dir, stack_name
        )
        for function in lambda_backends[self.account][self.region].list_functions():
            self.functions.warm_up(function)
        self._events.start()
        self._mappings.start()
        return outputs

    def stop(self) -> None:
        """End every process and thread that was started, and leave moto as it was shipped. May be called again."""
        if not self._running:
            return
        self._running = False
        self._mappings.begin_close()
        self._closing.set()
        sqs_receive.wake_long_polls()
        self._events.close()
        self.functions.close()
        self._mappings.join()
        sfn_start_stop.stop_all_executions()
        self.tasks.close()
        self.job_runs.close()
        self._shipper.close()
        self._services.close()
        self._server.stop()
        self._patches.undo()
        moto_api_backend.reset()
        _one_at_a_time.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _repair(self) -> None:
        patches = self._patches
        cfn_unsupported.apply(patches)
        dynamodb_atomic.apply(patches)
        ecs_resources.apply(patches)
        ecs_task_size.apply(patches)
        ecs_tasks.apply(patches, self.tasks)
        emr_applications.apply(patches)
        emr_job_runs.apply(patches, self.job_runs)
        lambda_invocation.apply(patches, self.functions)
        s3_conditional.apply(patches)
        s3_uploads.apply(patches)
        sfn_clients.apply(patches, self.endpoint)
        sfn_ecs_sync.apply(patches, self.tasks.on_end)
        sfn_emr_sync.apply(
            patches,
            cache(lambda region: aws_client("emr-serverless", endpoint=self.endpoint, region=region)),
            self.job_runs.on_end,
        )
        sfn_errors.apply(patches)
        sfn_interrupts.apply(patches)
        sfn_parameters.apply(patches)
        sfn_parse_once.apply(patches)
        sfn_start_stop.apply(patches, self._events.execution_status_changed)
        sfn_templates.apply(patches)
        sfn_threads.apply(patches)
        sqs_limits.apply(patches)
        sqs_receipts.apply(patches)
        sqs_receive.apply(patches, self._closing)
        sqs_trigger.apply(patches)
