"""What `longhaul up` does."""

from pathlib import Path

from longhaul.cli.extras import require
from longhaul.cli.local.address import check_address
from longhaul.cli.local.work_dir import work_in
from longhaul.cli.project import chosen, default_work_dir
from longhaul.cli.terminal.output import Output


def up(*, port: int, host: str, work_dir: Path | None, iam: bool, fresh: bool) -> None:
    require("local")
    folder = work_dir or default_work_dir()
    with work_in(folder):  # first: a second one in the same folder needs another, and no other port
        check_address(host, port)
        from longhaul.cli.local.serve import serve  # noqa: PLC0415 - moto is slow to load

        serve(
            Output(),
            host=host,
            port=port,
            work_dir=folder,
            project=chosen(),
            enforce_roles=iam,
            fresh=fresh,
        )
