"""The price table of AWS: `longhaul/cli/prices.json`, or a user's own in the same form."""

from datetime import date as day
from pathlib import Path
from typing import Annotated

from pydantic import Field

from longhaul.settings import Architecture, Model

USUAL = Path(__file__).parents[1] / "prices.json"

Price = Annotated[float, Field(ge=0)]
"""In the table's currency, for one unit."""


class _Source(Model):
    source: str  # where the price was read


class FargatePrices(_Source):
    vcpu_hour: dict[Architecture, Price]
    gb_hour: dict[Architecture, Price]
    disk_gb_hour: Price
    free_disk_gb: int
    spot_discount: Annotated[float, Field(ge=0, lt=1)]
    minimum_s: int  # a shorter task is charged for this long


class IpPrices(_Source):
    hour: Price


class StepFunctionsPrices(_Source):
    transition: Price


class LambdaPrices(_Source):
    request: Price
    gb_second: dict[Architecture, Price]
    disk_gb_second: Price
    free_disk_gb: float


class DynamoDBPrices(_Source):
    gb_month: Price


class S3Prices(_Source):
    put: Price
    gb_month: Price


class Prices(Model):
    region: str
    currency: str
    date: day
    note: str = ""
    fargate: FargatePrices
    public_ip: IpPrices
    step_functions: StepFunctionsPrices
    lambda_: LambdaPrices = Field(alias="lambda")
    dynamodb: DynamoDBPrices
    s3: S3Prices


def read_prices(file: Path = USUAL) -> Prices:
    """The prices in a file.

    Raises:
        OSError: it cannot be read.
        pydantic.ValidationError: it does not have the form of `prices.json`.
    """
    return Prices.model_validate_json(file.read_bytes())
