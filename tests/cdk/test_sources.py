"""A package without a checkout: what assets are made of is laid out as in one."""

import shutil
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from longhaul.cdk.functions import NOT_CODE
from longhaul.config import sources as module
from longhaul.config.project import demo
from longhaul.config.sources import SHIPPED, sources, work_dir
from tests.layers import ROOT

# isort: split
from aws_cdk import FileSystem, IgnoreMode

BESIDE = ("cdk.json", ".dockerignore", "pyproject.toml", "functions")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A site-packages with the package as a wheel has it."""
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "longhaul", site / "longhaul")
    (site / "longhaul" / SHIPPED).mkdir()
    for name in BESIDE:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, site / "longhaul" / SHIPPED / name)
    record = site / "longhaul_jobs-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("one build\n")
    monkeypatch.setattr(module, "_PACKAGE", site / "longhaul")
    monkeypatch.setattr(module.metadata, "distribution", lambda _: PathDistribution(record.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources.cache_clear()
    yield site
    sources.cache_clear()


def test_a_checkout_is_used_where_it_is() -> None:
    assert sources() == ROOT
    assert work_dir() == ROOT / ".longhaul"


def test_an_installed_package_keeps_its_files_in_a_folder_of_the_user(
    installed: Path, tmp_path: Path
) -> None:
    before = sorted(installed.rglob("*"))

    laid_out = sources()

    assert laid_out.parent == tmp_path / "cache" / "longhaul" / "sources"
    assert work_dir() == tmp_path / "cache" / "longhaul" / ".longhaul"
    assert sorted(each.name for each in laid_out.iterdir()) == sorted(["longhaul", *BESIDE])
    assert sorted(installed.rglob("*")) == before
    assert not (laid_out / "longhaul" / SHIPPED).exists()


@pytest.mark.usefixtures("installed")
def test_what_is_laid_out_has_no_demo_and_so_no_jobs_but_the_packages_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert demo() is None
    # The CDK app runs there, and takes it for a checkout.
    monkeypatch.setattr(module, "_PACKAGE", sources() / "longhaul")
    sources.cache_clear()
    assert demo() is None


def test_another_build_of_the_same_version_is_laid_out_anew(installed: Path) -> None:
    first = sources()
    (installed / "longhaul_jobs-0.1.0.dist-info" / "RECORD").write_text("another build\n")
    sources.cache_clear()

    assert sources() != first


@pytest.mark.usefixtures("installed")
def test_assets_of_a_package_and_of_a_checkout_have_the_same_bytes() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for exclude in (NOT_CODE, ignored):
        prints = {
            FileSystem.fingerprint(str(folder), exclude=exclude, ignore_mode=IgnoreMode.DOCKER)
            for folder in (ROOT, sources())
        }
        assert len(prints) == 1
