"""What a job was asked for: its request as it was claimed, which is kept beside its row."""

from typing import Any

from botocore.exceptions import ClientError

from longhaul.adapters.errors import code_of
from longhaul.domain.errors import InvalidRequestError
from longhaul.domain.lease import Lease
from longhaul.domain.request import read_request
from longhaul.operations.view import request_record
from longhaul.ports import Requests

_NOT_THERE = ("NoSuchKey", "AccessDenied")


def asked_of(lease: Lease, requests: Requests) -> dict[str, Any] | None:
    """The request of a row's run, as `request_record` has it.

    None where there is none: a cancel came first, the bucket's lifecycle has removed it, or this
    caller may not read it.
    """
    if lease.is_mark or not lease.request_ref:
        return None
    try:
        return request_record(read_request(requests.get(lease.request_ref).body))
    except InvalidRequestError:
        return None  # of another version
    except ClientError as error:
        if code_of(error) not in _NOT_THERE:
            raise
        return None
