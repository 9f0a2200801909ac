"""The embedded AWS: moto in this process, with drivers for what moto does not run.

    with EmbeddedAws(work_dir=Path("work"), task_dir=Path("app")) as aws:
        outputs = aws.deploy(Path("cdk.out"), "MyStack")

The deployed template is the one that `cdk deploy` would send. moto keeps the state of all services.
The drivers run what the template describes: functions (`lambda_driver`), tasks (`ecs_driver`), job
runs (`emr_driver`), event source mappings (`esm_poller`), rules (`event_driver`) and schedules
(`schedule_driver`). `moto_repairs` makes moto as strict as AWS, `iam` enforces the roles, and
`state` keeps what outlives a stop.
"""

import shutil
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import Any, Self

from moto.awslambda.models import lambda_backends
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ecs.models import ecs_backends
from moto.moto_api._internal.models import moto_api_backend

from longhaul.local.assembly import DeployError, deploy
from longhaul.local.credentials import (
    Allows,
    Credentials,
    Lend,
    NotTrustedError,
    allow_all,
    aws_client,
    lend_none,
)
from longhaul.local.ecs_driver import EcsDriver
from longhaul.local.emr_driver import EmrDriver
from longhaul.local.esm_poller import EsmPoller
from longhaul.local.event_driver import EventDriver
from longhaul.local.host import Host
from longhaul.local.iam.gate import Gate
from longhaul.local.iam.judge import Access, Judge
from longhaul.local.lambda_driver import LambdaDriver
from longhaul.local.log_shipper import LogShipper
from longhaul.local.moto_repairs import (
    cloudformation,
    dynamodb,
    ecs,
    emr,
    events,
    functions,
    glue,
    s3,
    sfn,
    sfn_sync,
    sqs,
)
from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.moto_server import MotoServer
from longhaul.local.running import LOOPBACK, REGION
from longhaul.local.schedule_driver import ScheduleDriver
from longhaul.local.state import executions, items, logs, messages, names, objects, whole
from longhaul.local.state.store import Store
from longhaul.local.work_dir import make_private_folder

_one_at_a_time = Lock()
# Those that need nothing of the drivers.
_REPAIRS = (
    cloudformation.policies,
    cloudformation.unsupported,
    dynamodb.atomic,
    ecs.resources,
    ecs.definitions,
    emr.applications,
    glue.databases,
    glue.versions,
    functions.images,
    s3.conditional,
    s3.events,
    s3.ranges,
    s3.uploads,
    events.scheduler,
    sfn.errors,
    sfn.interrupts,
    sfn.parameters,
    sfn.parse_once,
    sfn.templates,
    sfn.threads,
    sqs.receipts,
    sqs.trigger,
)


class EmbeddedAws:
    """At most one per process at a time: moto keeps its state in module globals."""

    def __init__(
        self,
        *,
        work_dir: Path,
        task_dir: Path,
        port: int = 0,
        host: str = LOOPBACK,
        provided_archives: Collection[str] = (),
        task_environment: Mapping[str, str] | None = None,
        iam: Path | None = None,
        store: Store | None = None,
    ) -> None:
        """Nothing runs before `start`.

        Args:
            work_dir: takes logs and extracted code. `start` removes those of an earlier run;
                `work_dir.occupied` keeps other processes out.
            task_dir: the working directory of tasks, in the place of the image's WORKDIR.
            port: 0 picks a free one.
            host: the address to listen on. Every client that reaches it can run commands on this
                machine.
            provided_archives: names of archives that Spark job runs ask for and that are skipped,
                because this Python environment has what is in them.
            task_environment: variables of tasks, and of functions that are images, in the place of
                the image's ENV.
            iam: the folder with the installed `iam.judge.FILES`; without it no role is enforced.
            store: keeps the state of the stack that is deployed, and has that of earlier starts; it
                is open, and `stop` closes it. Without one all state is gone at the stop.
        """
        self.region = REGION
        self.account = DEFAULT_ACCOUNT_ID
        self.work_dir = work_dir.resolve()
        self._host = host
        self._port = port
        self._task_dir = task_dir
        self._provided_archives = provided_archives
        self._task_environment = task_environment or {}
        self._iam = iam
        self._store = store
        self._running = False
        self._is_stopping = False

    @property
    def endpoint(self) -> str:
        """The value for `AWS_ENDPOINT_URL`. With port 0 it is known once started."""
        return f"http://{self._host}:{self._port}"

    def start(self) -> Self:
        """Start to serve.

        Raises:
            RuntimeError: another embedded AWS runs in this process.
            ForeignFolderError: the work dir belongs to another user.
            OSError: the port is taken.
        """
        if not _one_at_a_time.acquire(blocking=False):
            raise RuntimeError(
                "an embedded AWS runs in this process already, and moto's state is the process's: "
                "stop it first"
            )
        try:
            moto_api_backend.reset()  # what else in this process used moto may have left something
            make_private_folder(self.work_dir)
            for leftover in ("functions", "tasks", "job-runs"):
                shutil.rmtree(self.work_dir / leftover, ignore_errors=True)
            self._judge = Judge(self._iam) if self._iam else None
            gate = Gate(self._judge, self.account, self.region) if self._judge else None
            lend = self._lend = gate.lend if gate else lend_none
            self._server = MotoServer(
                self._port,
                self._host,
                gate.around if gate else (lambda app: app),
                lambda path: self.tasks.metadata(path),  # noqa: PLW0108 - it is made later
            )
            self._port = self._server.port
            self._patches = Patches()
            self._closing = Event()
            self._shipper = LogShipper(self.account, self.region)
            host = Host(self.endpoint, self.region, self.work_dir, self._shipper, lend)
            self.functions = LambdaDriver(
                host, image_dir=self._task_dir, image_environment=self._task_environment
            )
            self.tasks = EcsDriver(
                host, cwd=self._task_dir, image_environment=self._task_environment
            )
            self.job_runs = EmrDriver(host, provided_archives=self._provided_archives)
            self._mappings = EsmPoller(
                account=self.account,
                region=self.region,
                invoker=self.functions,
                allows=_judged(gate, "lambda") if gate else allow_all,
            )
            self._events = EventDriver(
                account=self.account,
                region=self.region,
                invoker=self.functions,
                allows=_judged_by_resource(gate) if gate else allow_all,
            )
            self._schedules = ScheduleDriver(
                account=self.account,
                region=self.region,
                fire_rule=self._events.fire,
                allows=_judged(gate, "scheduler") if gate else allow_all,
            )
            self._repair(lend)
        except BaseException:
            _one_at_a_time.release()
            raise
        self._running = True
        return self

    def deploy(self, assembly_dir: Path, stack_name: str) -> dict[str, str]:
        """Create a stack of a cloud assembly and start to drive it.

        Returns:
            the stack's outputs.

        Raises:
            DeployError: the stack could not be created.
            NotImplementedError: the template uses a feature that is not driven here.
        """
        client = partial(aws_client, endpoint=self.endpoint, region=self.region)
        outputs = deploy(client, assembly_dir, stack_name, account=self.account, region=self.region)
        aborted = self._restore()
        for function in lambda_backends[self.account][self.region].list_functions():
            self.functions.warm_up(function)
        self._trust_state_machines()
        self._events.check()
        self._mappings.start()
        self._schedules.start()
        for execution in aborted:
            self._events.execution_status_changed(execution)
        return outputs

    def _restore(self) -> list[Any]:
        """Put back what is kept, and keep what comes. Returns the executions that are now over."""
        if self._store is None:
            return []
        place = (self._store, self.account, self.region)
        for part in (objects, items, messages, whole, logs):
            part.restore(*place)
        aborted = executions.restore(*place)
        self._store.recording = True
        for execution in aborted:
            executions.keep(self._store, execution)
        return aborted

    def change_variable(self, name: str, change: Callable[[str], str]) -> None:
        """Change a variable of the functions and task definitions that have it.

        Invocations and tasks that run keep what they have; the next ones have the new value.
        """
        for function in lambda_backends[self.account][self.region].list_functions():
            variables = function.environment_vars or {}
            if name in variables:
                variables[name] = change(variables[name])
                self.functions.renew(function)
        families = ecs_backends[self.account][self.region].task_definitions
        containers: list[Any] = [
            container
            for revisions in families.values()
            for definition in revisions.values()
            for container in definition.container_definitions
        ]
        for variable in (
            each for container in containers for each in container.get("environment", [])
        ):
            if variable["name"] == name:
                variable["value"] = change(variable["value"])

    def stop(self) -> None:
        """End every process and thread, and undo every change to moto. Can be called again."""
        if not self._running:
            return
        self._running = False
        self._mappings.begin_close()
        self._closing.set()
        sqs.wake_long_polls()
        self._schedules.close()
        self.functions.close()
        self._mappings.join()
        self._is_stopping = True
        sfn.stop_all_executions()
        self.tasks.close()
        self.job_runs.close()
        self._shipper.close()
        self._server.stop()
        if self._store is not None:
            self._store.close()
        if self._judge is not None:
            self._judge.close()
        self._patches.undo()
        moto_api_backend.reset()
        _one_at_a_time.release()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _trust_state_machines(self) -> None:
        sfn = aws_client("stepfunctions", endpoint=self.endpoint, region=self.region)
        for machine in sfn.list_state_machines()["stateMachines"]:
            arn = machine["stateMachineArn"]
            role = sfn.describe_state_machine(stateMachineArn=arn)["roleArn"]
            try:
                self._lend(role, "states", "states", arn)
            except NotTrustedError as error:
                raise DeployError(
                    "Neither the global service principal states.amazonaws.com, nor the regional "
                    f"one is authorized to assume the provided role. ({arn}: {error})"
                ) from error

    def _repair(self, lend: Lend) -> None:
        def lent(role: str) -> Credentials:
            return lend(role, "states", "states", f"arn:aws:states:{self.region}:{self.account}:*")

        patches, store = self._patches, self._store
        if store is not None:
            names.apply(patches)
            items.apply(patches, store)
        for repair in _REPAIRS:
            repair(patches)
        ecs.tasks(patches, self.tasks)
        emr.job_runs(patches, self.job_runs)
        events.targets(patches, self._events.send)
        functions.invocation(patches, self.functions)
        client_for = sfn.clients(patches, self.endpoint, lent)
        ends = {"tasks": self.tasks.on_end, "job_runs": self.job_runs.on_end}
        sfn_sync.services(patches, client_for, **ends)
        sfn.start_stop(patches, self._execution_status_changed)
        sqs.receive(patches, self._closing)
        if store is not None:
            for part in (messages, logs, objects):
                part.apply(patches, store)
            whole.apply(patches, store, self.account, self.region)

    def _execution_status_changed(self, execution: Any) -> None:  # noqa: ANN401 - moto's
        if self._store is not None:
            if self._is_stopping:
                return  # the next start aborts it, and says so
            executions.keep(self._store, execution)
        self._events.execution_status_changed(execution)


def _judged(gate: Gate, service: str) -> Allows:
    """Whether the service may do something with a role."""
    return lambda role, action, resource: gate.allows_role(role, service, Access(action, resource))


def _judged_by_resource(gate: Gate) -> Allows:
    """Whether the policy of a function or queue lets EventBridge use it for a rule."""

    def allows(action: str, resource: str, rule: str) -> bool:
        account = rule.split(":")[4]
        context = {"aws:SourceArn": rule, "aws:SourceAccount": account}
        return gate.allows_service("events", Access(action, resource, context))

    return allows
