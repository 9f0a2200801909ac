from typing import Any

from moto.s3.models import S3Backend

from longhaul.local.moto_repairs import s3 as s3_repairs
from tests.local.support import Moto


def test_of_two_writers_of_an_absent_key_one_wins(moto: Moto, race: Any, *, repaired: bool) -> None:
    if repaired:
        s3_repairs.conditional(moto.patches)
    s3 = moto.client("s3")
    s3.create_bucket(Bucket="data")

    def write(_: int) -> None:
        s3.put_object(Bucket="data", Key="key", Body=b"{}", IfNoneMatch="*")

    answers = race(S3Backend, "get_object", write)
    assert answers == (["PreconditionFailed", "ok"] if repaired else ["ok", "ok"])
