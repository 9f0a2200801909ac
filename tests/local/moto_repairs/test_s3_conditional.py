from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.s3.models import S3Backend

from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import Moto, error_code


@pytest.fixture
def s3(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        s3_repairs.conditional(moto.patches)
    client = moto.client("s3")
    client.create_bucket(Bucket="data")
    return client


def test_of_two_writers_of_an_absent_key_one_wins(
    s3: Any, monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    both_looked = Barrier(2)
    # With stock moto the other one comes, however late. With the repair it never does.
    patience_s = 0.3 if repaired else 30
    stock_get: Any = S3Backend.get_object

    def get_object(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = stock_get(self, *args, **kwargs)
        try:
            both_looked.wait(patience_s)
        except BrokenBarrierError:
            return found
        return found

    def wins(_number: int) -> bool:
        try:
            s3.put_object(Bucket="data", Key="key", Body=b"{}", IfNoneMatch="*")
        except ClientError as error:
            if error_code(error) != "PreconditionFailed":
                raise
            return False
        return True

    monkeypatch.setattr(S3Backend, "get_object", get_object)
    with ThreadPoolExecutor(2) as pool:
        won = sorted(pool.map(wins, range(2)))

    assert won == ([False, True] if repaired else [True, True])
