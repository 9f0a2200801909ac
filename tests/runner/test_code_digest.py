"""What makes a job's code another one."""

from pathlib import Path

import pytest

from longhaul.runner.job_file import code_digest

FILES = {
    "jobs/train.py": "import shared.text\nfrom helpers import one\ndef run(spark, job): ...\n",
    "jobs/other.py": "def run(spark, job): ...\n",
    "jobs/helpers.py": "import deeper\none = 1\n",
    "jobs/deeper.py": "two = 2\n",
    "jobs/shared/__init__.py": "",
    "jobs/shared/text.py": "from . import words\n",
    "jobs/shared/words.py": "",
    "requirements.txt": "numpy==2.3.5\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_the_digest_is_the_same_wherever_the_project_is(project: Path, tmp_path: Path) -> None:
    before = code_digest(project / "jobs" / "train.py")
    moved = project.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    assert code_digest(moved / "jobs" / "train.py") == before


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"jobs/other.py"}))
def test_all_that_a_job_uses_counts(project: Path, name: str) -> None:
    job = project / "jobs" / "train.py"
    before = code_digest(job)
    (project / name).write_text(f"{FILES[name]}# changed\n")
    assert code_digest(job) != before


def test_another_job_does_not_count(project: Path) -> None:
    job = project / "jobs" / "train.py"
    before = code_digest(job)
    (project / "jobs" / "other.py").write_text("changed = True\n")
    assert code_digest(job) == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("deeper.py", "import helpers\n", id="modules that import one another"),
        pytest.param("train.py", "def run(:\n", id="no Python"),
    ],
)
def test_any_file_has_a_digest(project: Path, name: str, text: str) -> None:
    (project / "jobs" / name).write_text(text)
    assert code_digest(project / "jobs" / "train.py")


@pytest.mark.parametrize("name", ["jobs/helpers.py", "jobs/deeper.py", "requirements.txt"])
def test_a_file_from_elsewhere_counts_with_what_it_uses_of_the_project(
    project: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    job = tmp_path_factory.mktemp("code") / "fetched.py"
    job.write_text("import helpers\ndef run(spark, job): ...\n")
    before = code_digest(job, project / "jobs")
    assert before != code_digest(job)
    (project / name).write_text(f"{FILES[name]}# changed\n")
    assert code_digest(job, project / "jobs") != before
