from dataclasses import replace

from longhaul.core.descent import Lineage
from longhaul.operations.runs import runs
from tests.builders import running


def test_a_run_is_called_as_its_root_and_by_its_id_where_that_is_not_among_the_jobs() -> None:
    root = replace(running(), label="october")
    lineage = Lineage(root=root.key, parent=root.key)
    part = replace(running(), key="clean#1", label="part 7", lineage=lineage)
    assert [each.name for each in runs([root, part], ())] == ["october"]
    assert [each.name for each in runs([part], ())] == [root.job_id]
