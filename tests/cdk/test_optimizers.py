"""Glue's optimizers, of the tables that the settings name."""

from longhaul.core.places import TablePath
from tests.cdk.conftest import KEY
from tests.cdk.synthesis import Synthesis

DELAYS = TablePath("longhaul", "delays")


def test_each_named_table_has_the_three_optimizers(guarded: Synthesis, usual: Synthesis) -> None:
    optimizers = guarded.resources("AWS::Glue::TableOptimizer").values()
    assert sorted((each["TableName"], each["Type"]) for each in optimizers) == [
        (table, kind)
        for table in ("delays", "flights")
        for kind in ("compaction", "orphan_file_deletion", "retention")
    ]
    for each in optimizers:
        assert each["DatabaseName"] == DELAYS.database
        configuration = each["TableOptimizerConfiguration"]
        assert configuration["Enabled"] is True
        assert configuration["RoleArn"] == "<TablesOptimizerRole.Arn>"
    assert usual.resources("AWS::Glue::TableOptimizer") == {}


def test_their_role_reaches_the_files_of_those_tables_alone(guarded: Synthesis) -> None:
    statements = {each["Sid"]: each for each in guarded.statements("TablesOptimizerRole")}
    folder = DELAYS.location("<Data.Arn>").removeprefix("s3://").removesuffix("delays")
    assert statements["OptimizeFiles"]["Resource"] == [f"{folder}delays/*", f"{folder}flights/*"]
    assert [each.rpartition(":")[2] for each in statements["OptimizeTables"]["Resource"]] == [
        "catalog",
        "database/longhaul",
        "table/longhaul/delays",
        "table/longhaul/flights",
    ]
    (key,) = (each for each in statements.values() if each["Resource"] == KEY)
    assert key["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
