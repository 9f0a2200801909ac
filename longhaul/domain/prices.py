"""What AWS asks for what a job uses: the form of `console/prices.json`."""

from datetime import date as day
from typing import Annotated

from pydantic import Field

from longhaul.settings import Architecture, Model

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
    minimum_s: int  # a task is paid for at least this long


class IpPrices(_Source):
    hour: Price


class StepFunctionsPrices(_Source):
    transition: Price


class LambdaPrices(_Source):
    request: Price
    gb_second: dict[Architecture, Price]


class SqsPrices(_Source):
    request: Price


class DynamoDBPrices(_Source):
    write_unit: Price
    read_unit: Price


class S3Prices(_Source):
    put: Price
    get: Price


class Prices(Model):
    region: str
    currency: str
    date: day
    note: str = ""
    fargate: FargatePrices
    public_ip: IpPrices
    step_functions: StepFunctionsPrices
    lambda_: LambdaPrices = Field(alias="lambda")
    sqs: SqsPrices
    dynamodb: DynamoDBPrices
    s3: S3Prices
