"""The Glue databases of tables: jobs write them where they name one as their output."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from aws_cdk import Aws, CfnResource, RemovalPolicy
from aws_cdk import aws_glue as glue
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lakeformation as lakeformation
from constructs import Construct

from longhaul.cdk import grants
from longhaul.cdk.data_bucket import DataBucket
from longhaul.config.rights import DATA_BUCKET, tables_below
from longhaul.config.settings import Settings, database_name
from longhaul.core.places import TABLES_PREFIX

# An overwrite needs the snapshot that it began with, and a job runs for 7 days at most.
_SNAPSHOT_DAYS: Final = 7
# The files of an output belong to no snapshot until its commit, which may be repeated for days.
_ORPHAN_DAYS: Final = 14
# What a role needs in a database that Lake Formation governs, and in its tables: to read and
# commit, or to read alone.
_COMMITTING: Final = (
    ("CREATE_TABLE", "DESCRIBE"),
    ("ALTER", "DELETE", "DESCRIBE", "INSERT", "SELECT"),
)
_READING: Final = (("DESCRIBE",), ("DESCRIBE", "SELECT"))


class TableDatabases(Construct):
    """The databases that jobs may use. The stack makes its own, without tables."""

    def __init__(self, scope: Construct, id_: str, *, settings: Settings, data: DataBucket) -> None:
        super().__init__(scope, id_)
        self._names = settings.databases
        self._is_governed = settings.lake_formation
        self._key = settings.catalog_key
        # Each grant waits for the one before: Lake Formation refuses some that come at once.
        self._before: list[CfnResource] = []
        if settings.own_database:
            self._make(settings, data)

    def open_to(
        self,
        role: iam.IRole,
        who: str,
        *,
        writes: Iterable[str] = (DATA_BUCKET,),
        reads: Iterable[str] = (),
    ) -> None:
        """Let a role read, make and change tables; `who` tells its grants from those of others.

        `writes` and `reads` are prefixes of the data bucket, below which the tables are.
        """
        written = list(tables_below(writes, self._names))
        read = [each for each in tables_below(reads, self._names) if each not in written]
        grants.use_tables(role, write=written, read=read)
        if self._key and (written or read):
            grants.use_catalog_key(role, self._key)
        if self._is_governed:
            committed = {database for database, _ in written}
            self._grant(role, who, *_COMMITTING, committed)
            self._grant(role, who, *_READING, {database for database, _ in read} - committed)

    def _make(self, settings: Settings, data: DataBucket) -> None:
        name = database_name(settings.stack_name)
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
        self._before = [database]
        if settings.optimized_tables:
            self._optimize(settings, name, data)

    def _optimize(self, settings: Settings, database: str, data: DataBucket) -> None:
        tables = settings.optimized_tables
        role = iam.Role(
            self,
            "OptimizerRole",
            assumed_by=iam.ServicePrincipal("glue.amazonaws.com"),
            description="How Glue compacts tables, and deletes what no reader needs",
        )
        grants.optimize_tables(role, database, tables, data)
        if self._key:
            grants.use_catalog_key(role, self._key)
        if self._is_governed:
            self._grant(role, "Optimizer", ("DESCRIBE",), _COMMITTING[1], {*self._names})
        grants.use_keys(role, read=(), write=[settings.kms_key] if settings.kms_key else [])
        for table in tables:
            for kind, configuration in _configurations(role.role_arn).items():
                optimizer = glue.CfnTableOptimizer(
                    self,
                    f"{table}-{kind}",
                    catalog_id=Aws.ACCOUNT_ID,
                    database_name=database,
                    table_name=table,
                    type=kind,
                    table_optimizer_configuration=configuration,
                )
                optimizer.node.add_dependency(role, *self._before)

    def _grant(
        self,
        role: iam.IRole,
        who: str,
        database: Sequence[str],
        tables: Sequence[str],
        names: Collection[str],
    ) -> None:
        """Grant these permissions in databases of these names, and in all tables of each."""
        of = lakeformation.CfnPrincipalPermissions
        for n, name in enumerate(self._names):
            if name not in names:
                continue
            in_database = of.ResourceProperty(
                database=of.DatabaseResourceProperty(catalog_id=Aws.ACCOUNT_ID, name=name)
            )
            in_tables = of.ResourceProperty(
                table=of.TableResourceProperty(
                    catalog_id=Aws.ACCOUNT_ID, database_name=name, table_wildcard={}
                )
            )
            for kind, resource, permissions in (
                ("Database", in_database, database),
                ("Tables", in_tables, tables),
            ):
                grant = of(
                    self,
                    f"{who}{kind}{n}",
                    principal=of.DataLakePrincipalProperty(
                        data_lake_principal_identifier=role.role_arn
                    ),
                    resource=resource,
                    permissions=list(permissions),
                    permissions_with_grant_option=[],
                )
                for each in self._before:
                    grant.add_dependency(each)
                self._before = [grant]


def _configurations(
    role_arn: str,
) -> dict[str, glue.CfnTableOptimizer.TableOptimizerConfigurationProperty]:
    """What Glue does for one table, by the optimizer's type."""
    of = glue.CfnTableOptimizer
    return {
        "compaction": of.TableOptimizerConfigurationProperty(enabled=True, role_arn=role_arn),
        "retention": of.TableOptimizerConfigurationProperty(
            enabled=True,
            role_arn=role_arn,
            retention_configuration=of.RetentionConfigurationProperty(
                iceberg_configuration=of.IcebergRetentionConfigurationProperty(
                    snapshot_retention_period_in_days=_SNAPSHOT_DAYS,
                    number_of_snapshots_to_retain=1,
                    clean_expired_files=True,
                )
            ),
        ),
        "orphan_file_deletion": of.TableOptimizerConfigurationProperty(
            enabled=True,
            role_arn=role_arn,
            orphan_file_deletion_configuration=of.OrphanFileDeletionConfigurationProperty(
                iceberg_configuration=of.IcebergConfigurationProperty(
                    orphan_file_retention_period_in_days=_ORPHAN_DAYS
                )
            ),
        ),
    }
