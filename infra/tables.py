"""The Glue databases of tables: jobs write them where they name one as their output."""

from aws_cdk import Aws, RemovalPolicy
from aws_cdk import aws_glue as glue
from constructs import Construct

from infra.data_bucket import DataBucket
from infra.settings import Settings, own_database
from longhaul.domain.paths import TABLES_PREFIX


class TableDatabases(Construct):
    """The databases that jobs may use. The stack makes the first, without tables."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, data: DataBucket) -> None:
        super().__init__(scope, id_)
        name = own_database(settings.stack_name)
        self.names = (name, *settings.table_databases)
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=name,
                description=f"Tables of the jobs of {settings.stack_name}",
                # Tables that others make here lie beside those of jobs.
                location_uri=f"s3://{data.bucket_name}/{TABLES_PREFIX}{name}",
            ),
        )
        # Deleting a database deletes its tables: they outlive the stack, as their files do.
        # Not RETAIN: a first deployment that fails would leave the database behind.
        database.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
