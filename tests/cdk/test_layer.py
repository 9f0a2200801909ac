import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib import metadata
from pathlib import Path

import botocore.session
import pytest
from aws_cdk import FileSystem, IgnoreMode
from botocore.loaders import Loader

from longhaul.cdk import layer
from longhaul.cdk.functions import NOT_CODE
from longhaul.cdk.layer import LayerError
from longhaul.config import sources as module
from longhaul.config.project import demo
from longhaul.config.sources import SHIPPED, sources, work_dir
from tests.cdk.conftest import NOTIFIED
from tests.cdk.synthesis import Synthesis
from tests.layers import FEATURES, ROOT, files_of
from tests.patience import DEADLINE_S


@pytest.fixture(autouse=True)
def _no_compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds for each layer."""
    if "compiler" not in request.fixturenames:
        monkeypatch.setattr(layer, "_compile", lambda _: None)


@pytest.fixture
def compiler() -> None:
    """The real one."""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Its functions require one small pure package from a local folder: pip asks no index."""
    return requiring(tmp_path, {"tiny.py": "VERSION = 1\n"})


def test_the_layer_holds_the_packages_without_pips_own_files(repository: Path) -> None:
    built = layer.build(repository, "arm64")

    files = sorted(str(path.relative_to(built)) for path in built.rglob("*") if path.is_file())
    assert files == [
        "python/tiny-1.0.dist-info/METADATA",
        "python/tiny-1.0.dist-info/WHEEL",
        "python/tiny.py",
    ]


@pytest.mark.usefixtures("compiler")
def test_the_layer_has_bytecode_for_the_functions_python(repository: Path) -> None:
    built = layer.build(repository, "arm64")

    (file,) = built.rglob("*.pyc")
    assert file == built / "python" / "__pycache__" / "tiny.cpython-313.pyc"
    cached = file.read_bytes()
    # https://github.com/python/cpython/blob/3.13/Include/internal/pycore_magic_number.h
    assert cached[:4] == (3571).to_bytes(2, "little") + b"\r\n"
    # Archives lose the times of files, so Python must not compare them: an unchecked hash.
    assert int.from_bytes(cached[4:8], "little") == 0b01
    assert b"/opt/python/tiny.py" in cached
    shutil.rmtree(built)
    (again,) = layer.build(repository, "arm64").rglob("*.pyc")
    assert again.read_bytes() == cached


@pytest.mark.usefixtures("compiler")
def test_a_module_that_cannot_be_compiled_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(
        LayerError, match=r"(?s)could not be written.*/opt/python/broken\.py.*SyntaxError"
    ):
        layer.build(requiring(tmp_path, {"broken.py": "def\n"}), "arm64")


def test_another_architecture_or_requirement_is_another_layer(repository: Path) -> None:
    arm = layer.name(repository, "arm64")
    x86 = layer.name(repository, "x86_64")
    with (repository / "functions" / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    changed = layer.name(repository, "arm64")

    assert len({arm, x86, changed}) == 3


@pytest.mark.parametrize(
    ("hashed", "says"),
    [("", r"No matching distribution found for tiny==2\.0"), ("0" * 64, "DO NOT MATCH THE HASHES")],
    ids=["no wheel for the target", "not the locked one"],
)
def test_what_pip_refuses_is_an_error_that_names_it(tmp_path: Path, hashed: str, says: str) -> None:
    line = f"{wheel_of(tmp_path, {})} --hash=sha256:{hashed}" if hashed else "tiny==2.0"
    with pytest.raises(LayerError, match=says):
        layer.build(locking(tmp_path, line), "arm64")


def test_the_layer_lacks_services_that_no_function_calls(tmp_path: Path) -> None:
    data = {
        f"botocore/data/{name}": "{}"
        for name in ("endpoints.json", "s3/2006-03-01/service-2.json", "rds/1/service-2.json")
    }
    repository = requiring(tmp_path, data)

    built = layer.build(repository, "arm64")
    archive = layer.archive(repository, "arm64")

    kept = {str(path.relative_to(built / "python")) for path in built.rglob("*.json")}
    assert kept == set(data) - {"botocore/data/rds/1/service-2.json"}
    with zipfile.ZipFile(archive) as zipped:
        assert {f"python/{name}" for name in data} <= set(zipped.namelist())


def test_an_archive_has_the_same_bytes_at_each_build(repository: Path) -> None:
    archive = layer.archive(repository, "arm64")
    first = archive.read_bytes()
    archive.unlink()

    assert layer.archive(repository, "arm64").read_bytes() == first


def test_the_layer_has_each_service_that_functions_call() -> None:
    code = (
        "".join(
            file.read_text() for room in ("core", "engines", *FEATURES) for file in files_of(room)
        )
        + (ROOT / "longhaul" / "wiring.py").read_text()
    )
    notified = {target.split(":")[2] for target in NOTIFIED.values()}

    called = {*re.findall(r"clients\.client\(\s*\"([a-z0-9-]+)\"", code), *notified}

    assert called == set(layer.SERVICES)


def test_botocore_makes_the_functions_clients_from_the_layers_files(usual: Synthesis) -> None:
    (data,) = usual.folder.glob("asset.*/python/botocore/data")
    session = botocore.session.Session()
    session.register_component(
        "data_loader",
        Loader(extra_search_paths=[str(data)], include_default_search_paths=False),
    )

    for service in layer.SERVICES:
        client = session.create_client(service, region_name="eu-central-1")
        assert client.meta.service_model.operation_names


def test_functions_import_nothing_that_the_layer_lacks() -> None:
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for layer_ in ("functions", "core", "engines", "wiring", *FEATURES)
        for file in files_of(layer_)
    ]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({layer.NOT_IMPORTED}));"
        f"import {','.join(modules)}"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )

    assert (done.returncode, done.stderr) == (0, "")


def requiring(folder: Path, files: dict[str, str]) -> Path:
    """A repository whose functions require a package of these files."""
    wheel = wheel_of(folder, files)
    return locking(folder, f"{wheel} --hash=sha256:{sha256(wheel.read_bytes()).hexdigest()}")


def locking(repository: Path, line: str) -> Path:
    """The repository, with a lock that has one line and asks no index."""
    (repository / "functions").mkdir()
    (repository / "functions" / "requirements.lock").write_text(f"--no-index\n{line}\n")
    return repository


def wheel_of(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
        wheel.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return path


# The locks: what the layer, the image and the machines install, with hashes.


LOCKED = (
    "functions/requirements.txt",
    "longhaul/runner/requirements.txt",
    "longhaul/runner/build-requirements.txt",
    "requirements.txt",
    "requirements-dev.txt",
    "docs/requirements.txt",
)
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", re.MULTILINE)


def pins(requirements: Path) -> dict[str, str]:
    """Package → version. Each line of the file has to be a pin."""
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    found = [line.lower() for line in lines if line and not line.startswith("-r ")]
    assert all(map(_PIN.match, found))
    return dict(_PIN.findall("\n".join(found)))


@pytest.mark.parametrize("name", LOCKED)
def test_the_locks_in_the_repository_hold_what_is_pinned(name: str) -> None:
    text = (ROOT / name).with_suffix(".lock").read_text()
    locked = dict(_PIN.findall(text))

    assert pins(ROOT / name).items() <= locked.items(), "run `make lock`"
    entries = [each for each in re.split(r"\n(?=\S)", text) if not each.startswith("#")]
    assert len(entries) == len(_PIN.findall(text))
    assert all("--hash=sha256:" in entry for entry in entries)


def test_make_locks_for_the_python_and_the_architectures_of_the_layer() -> None:
    (recipe,) = re.findall(
        r"^lock:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE
    )

    assert f"--python-version {layer.PYTHON_VERSION} " in recipe
    assert f"$$machine-{layer.GLIBC[0]} " in recipe
    (machines,) = re.findall(r"for machine in ([\w ]+);", recipe)
    assert set(machines.split()) == set(layer.MACHINE.values())


def test_the_image_installs_from_the_locks_alone() -> None:
    lines = (ROOT / "longhaul/runner/Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installs = [part for line in lines for part in line.split("&&") if "pip install" in part]

    assert len(installs) == 2
    for each in installs:
        assert "--require-hashes" in each
        assert "--no-deps" in each
        assert ".lock" in each
    # Else pip would fetch what builds a source archive without looking at hashes.
    assert "--no-build-isolation" in installs[1]


# A package without a checkout: what assets are made of is laid out as in one.


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
    monkeypatch.setattr(
        metadata, "distribution", lambda _: metadata.PathDistribution(record.parent)
    )
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


@pytest.mark.usefixtures("installed")
def test_assets_of_a_package_and_of_a_checkout_have_the_same_bytes() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for exclude in (NOT_CODE, ignored):
        prints = {
            FileSystem.fingerprint(str(folder), exclude=exclude, ignore_mode=IgnoreMode.DOCKER)
            for folder in (ROOT, sources())
        }
        assert len(prints) == 1
