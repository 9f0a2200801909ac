"""Judges each request of a role before moto sees it.

A role's credentials are those of a session of moto's STS. A request that is signed with them is
judged by the role's policies and those of the resource. Any other request is an administrator's.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import io
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape, unescape

from moto.awslambda.models import lambda_backends
from moto.core.request import Request
from moto.core.routing import get_service_router
from moto.dynamodb.models import dynamodb_backends
from moto.ecs.models import ecs_backends
from moto.iam.models import iam_backends
from moto.kms.models import kms_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends
from moto.sts.models import sts_backends

from longhaul.local.credentials import Credentials, NotTrustedError
from longhaul.local.iam.calls import Call, Known, Reference, UnknownCallError
from longhaul.local.iam.judge import Access, Judge, JudgeError, Policies, Verdict

LOG = logging.getLogger(__name__)
PARTITION: Final = "aws"
_SCOPE = re.compile(r"Credential=([^/,\s]+)/[^/]+/([^/]+)/([^/]+)/aws4_request")
_A_DAY_S: Final = 86_400
# On AWS every endpoint that is used has TLS.
_SECURE: Final = {"aws:SecureTransport": "true"}
_LOOPBACK_SUFFIX: Final = ".localhost"
_READS: Final = {("s3", "GetObject"), ("s3", "HeadObject")}

_OF_A_STATEMENT: Final = ("Effect", "Principal", "Action", "Resource", "Condition")

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class _Session:
    role: str
    name: str

    @property
    def arn(self) -> str:
        account, role_name = self.role.split(":")[4], self.role.rsplit("/", 1)[-1]
        return f"arn:{PARTITION}:sts::{account}:assumed-role/{role_name}/{self.name}"


class Gate:
    def __init__(self, judge: Judge, account: str, region: str) -> None:
        self._judge = judge
        self._reference = Reference(judge.data)
        self._account = account
        self._region = region
        self._said: set[tuple[str, str, str]] = set()
        self._known = Known(self._hash_key, self._task_definition)

    def lend(self, role: str, session: str, service: str, source: str | None = None) -> Credentials:
        """Credentials of a role, as a service gets them for what it runs: see `Lend`."""
        # https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html
        told = {"aws:SourceAccount": self._account, "aws:SourceArn": source} if source else {}
        if not self.allows_service(service, Access("sts:AssumeRole", role, told)):
            raise NotTrustedError(role, service)
        name = re.sub(r"[^\w+=,.@-]", "-", session)[:64]
        made: Any = sts_backends[self._account][PARTITION].assume_role(
            self._region, name, role, "", _A_DAY_S, ""
        )
        return Credentials(made.access_key_id, made.secret_access_key, made.session_token)

    def around(self, app: App) -> App:
        """The application behind the gate."""

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            key, region, service = self._signed_with(environ)
            session = self._session(key)
            if session is None:
                return app(environ, start_response)
            try:
                call = parse(environ, service, region, self._account)
                refusal = self._refusal(session, call)
            except (UnknownCallError, JudgeError) as error:
                LOG.warning("%s: not judged, and so denied: %s", session.arn, error)
                call = Call(service, "", {}, _headers(environ), region, self._account)
                refusal = f"{session.arn}: the embedded AWS cannot judge this call: {error}"
            if refusal is not None:
                return _denied(environ, start_response, call, refusal)
            return app(environ, start_response)

        return serve

    def _signed_with(self, environ: dict[str, Any]) -> tuple[str, str, str]:
        """Key, region and service of a request's signature; an unsigned one has no key."""
        query = dict(parse_qsl(environ.get("QUERY_STRING", "")))
        presigned = f"Credential={query.get('X-Amz-Credential', '')}"
        for signed in (environ.get("HTTP_AUTHORIZATION", ""), presigned):
            if scope := _SCOPE.search(signed):
                return scope[1], scope[2], scope[3]
        # The older presigned URLs of S3.
        return query.get("AWSAccessKeyId", ""), self._region, "s3"

    def _session(self, key: str) -> _Session | None:
        sts: Any = sts_backends[self._account][PARTITION]
        made = sts.get_assumed_role_from_access_key(key) if key.startswith("ASIA") else None
        return _Session(made.role_arn, made.session_name) if made is not None else None

    def _refusal(self, session: _Session, call: Call) -> str | None:
        """What AWS says to a call that is not allowed; None if it is."""
        accesses = self._reference.accesses(call, self._known)
        for access in accesses + self._listing_of_absent(call):
            verdict = self._decided(session, access)
            if not verdict.allowed:
                return (
                    f"User: {session.arn} is not authorized to perform: {access.action} "
                    f"on resource: {access.resource} {verdict.because}"
                )
        return None

    def allows_service(self, service: str, access: Access) -> bool:
        """Whether the policy of a resource lets a service, by its own name, do something."""
        verdict = self._judge.decide(
            f"{service}.amazonaws.com",
            self._account,
            Access(access.action, access.resource, {**_SECURE, **access.context}),
            Policies(resource=self._resource_policy(access.resource)),
        )
        if not verdict.allowed:
            principal = {"Principal": {"Service": f"{service}.amazonaws.com"}}
            self._warn(f"service {service}", access, verdict, principal)
        return verdict.allowed

    def allows_role(self, role: str, service: str, access: Access) -> bool:
        """Whether a service may do something with a role, of which no request comes here."""
        return self._decided(_Session(role, service), access).allowed

    def _decided(self, session: _Session, access: Access) -> Verdict:
        identity, boundary = self._policies_of(session.role)
        owner = access.resource.split(":")[4] if access.resource != "*" else ""
        context = {
            "aws:PrincipalAccount": self._account,
            "aws:PrincipalArn": session.role,
            "aws:PrincipalIsAWSService": "false",
            "aws:PrincipalType": "AssumedRole",
            "aws:RequestedRegion": self._region,
            **_SECURE,
            **access.context,
        }
        verdict = self._judge.decide(
            session.arn,
            owner or self._account,
            Access(access.action, access.resource, context),
            Policies(identity, boundary, self._resource_policy(access.resource)),
        )
        if not verdict.allowed:
            self._warn(f"role {session.role.rpartition('/')[2]}", access, verdict)
        return verdict

    def _policies_of(self, role_arn: str) -> tuple[tuple[str, ...], str | None]:
        iam: Any = iam_backends[self._account][PARTITION]
        role = iam.get_role_by_arn(role_arn)
        inline = [str(text) for text in role.policies.values()]
        attached = [_document(each) for each in role.managed_policies.values()]
        boundary_arn = role.permissions_boundary_arn
        boundary = _document(iam.get_policy(boundary_arn)) if boundary_arn else None
        return tuple(inline + attached), boundary

    def _resource_policy(self, arn: str) -> str | None:
        service, name = ["", *arn.split(":")][3] if ":" in arn else "", arn.rsplit(":", 1)[-1]
        policy: Any = None
        if service == "iam":
            iam: Any = iam_backends[self._account][PARTITION]
            policy = iam.get_role_by_arn(arn).assume_role_policy_document
        elif service == "s3":
            bucket = s3_backends[self._account][PARTITION].buckets.get(name.partition("/")[0])
            policy = bucket.policy if bucket is not None else None
        elif service == "sqs":
            queue = sqs_backends[self._account][self._region].queues.get(name)
            policy = queue.policy if queue is not None else None
        elif service == "lambda":
            policy = self._policy_of_function(arn)
        elif service == "kms":
            key = kms_backends[self._account][self._region].keys.get(name.rpartition("/")[2])
            policy = key.policy if key is not None else None
        if not policy:
            return None
        return policy.decode() if isinstance(policy, bytes) else _text(policy)

    def _policy_of_function(self, arn: str) -> Any:
        functions = lambda_backends[self._account][self._region].list_functions()
        kept = next((each.policy.statements for each in functions if each.function_arn == arn), ())
        # Beside a statement's own members moto keeps those of the template.
        statements = [
            {name: each[name] for name in _OF_A_STATEMENT if name in each} for each in kept
        ]
        return {"Version": "2012-10-17", "Statement": statements} if statements else None

    def _warn(
        self,
        who: str,
        access: Access,
        verdict: Verdict,
        principal: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Say once what a role or the policy of a resource lacks."""
        lacking = (who, access.action, access.resource)
        if lacking in self._said:
            return
        self._said.add(lacking)
        statement = {"Effect": "Allow", **principal, "Action": access.action}
        LOG.warning(
            "denied: %s, action %s, resource %s, %s; what is missing: %s",
            *(*lacking, verdict.because, json.dumps({**statement, "Resource": access.resource})),
        )

    def _listing_of_absent(self, call: Call) -> list[Access]:
        """Without `s3:ListBucket` an absent object is denied instead of not found.

        https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        """
        if (call.service, call.operation) not in _READS:
            return []
        name, key = call.parameters["Bucket"], call.parameters["Key"]
        bucket = s3_backends[self._account][PARTITION].buckets.get(name)
        is_there = bucket is not None and bucket.keys.get(key) is not None
        return [] if is_there else [Access("s3:ListBucket", f"arn:{PARTITION}:s3:::{name}")]

    def _hash_key(self, table: str, index: str | None) -> str | None:
        found = dynamodb_backends[self._account][self._region].tables.get(table)
        if found is None:
            return None
        schema: Any = found if index is None else found.get_index(index)
        key: str = schema.hash_key_attr if index is None else schema.schema[0]["AttributeName"]
        return key

    def _task_definition(self, name: str) -> tuple[str, tuple[str, ...]]:
        found: Any = ecs_backends[self._account][self._region].describe_task_definition(name)
        roles = (getattr(found, f"{kind}_role_arn", None) for kind in ("task", "execution"))
        return found.arn, tuple(filter(None, roles))


def parse(environ: dict[str, Any], service: str, region: str, account: str) -> Call:
    """The call of a request, which can be read again afterwards."""
    headers = _headers(environ)
    query = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    if target := headers.get("x-amz-target"):
        parameters = json.loads(_body(environ) or b"{}")
        return Call(service, target.rpartition(".")[2], parameters, headers, region, account)
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(_body(environ).decode()))
        return Call(service, form.pop("Action", ""), form, headers, region, account)
    routed = environ | {"PATH_INFO": _path(environ, service)}
    operation, named = get_service_router(service).match(Request(routed))
    name, parameters = operation.name, {**query, **named}
    if name == "DeleteObjects":
        parameters["Keys"] = _keys(_body(environ))
    elif service != "s3" and name != "Invoke":
        parameters |= json.loads(_body(environ) or b"{}")
    if "x-amz-copy-source" in headers:
        name = {"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}.get(name, name)
    return Call(service, name, parameters, headers, region, account)


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    found = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return found | {"content-type": environ.get("CONTENT_TYPE") or ""}


def _body(environ: dict[str, Any]) -> bytes:
    body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _path(environ: dict[str, Any], service: str) -> str:
    """The path, with the bucket that the host may name."""
    path: str = environ["PATH_INFO"]
    host: str = environ.get("HTTP_HOST", "").partition(":")[0]
    if service == "s3" and host.endswith(_LOOPBACK_SUFFIX):
        return f"/{host.removesuffix(_LOOPBACK_SUFFIX)}{path}"
    return path


def _keys(body: bytes) -> list[str]:
    texts = re.findall(r"<Key>(.*?)</Key>", body.decode(), re.DOTALL)
    return [unescape(text, {"&quot;": '"', "&apos;": "'"}) for text in texts]


def _document(policy: Any) -> str:
    """The default version of a managed policy."""
    return next(str(each.document) for each in policy.versions if each.is_default)


def _text(policy: Any) -> str:
    return policy if isinstance(policy, str) else json.dumps(policy)


def _denied(
    environ: dict[str, Any], start_response: Callable[..., Any], call: Call, message: str
) -> Iterable[bytes]:
    """AccessDenied in the protocol of the call."""
    if call.service == "s3":
        kind, status = "application/xml", "403 Forbidden"
        body = f"<Error><Code>AccessDenied</Code><Message>{escape(message)}</Message></Error>"
    elif call.headers["content-type"].startswith("application/x-www-form-urlencoded"):
        kind, status = "text/xml", "403 Forbidden"
        body = (
            "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>"
            f"<Message>{escape(message)}</Message></Error></ErrorResponse>"
        )
    else:
        kind = call.headers["content-type"] or "application/json"
        status = "400 Bad Request" if "x-amz-target" in call.headers else "403 Forbidden"
        body = json.dumps({"__type": "AccessDeniedException", "message": message})
    headers = [("Content-Type", kind), ("x-amzn-ErrorType", "AccessDeniedException")]
    if call.service == "sqs":
        headers.append(("x-amzn-query-error", "AccessDenied;Sender"))
    content = b"" if environ["REQUEST_METHOD"] == "HEAD" else body.encode()
    start_response(status, [*headers, ("Content-Length", str(len(content)))])
    # What is left of the request would be taken for the next one.
    _drain(environ)
    return [content]


def _drain(environ: dict[str, Any]) -> None:
    stream, left = environ["wsgi.input"], int(environ.get("CONTENT_LENGTH") or 0)
    while left > 0 and (part := stream.read(min(left, 1 << 20))):
        left -= len(part)
