import re
import shutil
import subprocess
import sys
import threading
import zipfile
from hashlib import sha256
from pathlib import Path

import botocore.session
import pytest
from botocore.loaders import Loader

from longhaul.cdk import layer
from longhaul.cdk.layer import LayerError
from longhaul.config import npm
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


@pytest.mark.usefixtures("compiler")
def test_a_compiler_that_cannot_be_installed_is_an_error_that_says_why(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npm, "sources", lambda: repository)
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")

    with pytest.raises(LayerError, match=r"(?s)can its registry be reached.*127\.0\.0\.1:9"):
        layer.build(repository, "arm64")

    assert list((repository / ".cache" / "compiler").iterdir()) == []
    assert not (repository / ".cache" / "layer" / layer.name(repository, "arm64")).exists()


def test_another_architecture_or_requirement_is_another_layer(repository: Path) -> None:
    arm = layer.name(repository, "arm64")
    x86 = layer.name(repository, "x86_64")
    with (repository / "functions" / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    changed = layer.name(repository, "arm64")

    assert len({arm, x86, changed}) == 3


def test_two_builds_at_once_leave_one_complete_layer_and_nothing_else(repository: Path) -> None:
    built: list[Path] = []
    threads = [
        threading.Thread(target=lambda: built.append(layer.build(repository, "arm64")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=DEADLINE_S)

    assert len(built) == 2
    assert list((repository / ".cache" / "layer").iterdir()) == [built[0]]
    assert (built[0] / "python" / "tiny.py").is_file()


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


def test_the_layer_lacks_modules_that_no_function_imports(tmp_path: Path) -> None:
    files = ("__init__.py", "backend_c.cpython-313-aarch64-linux-gnu.so", "backend_cffi.py")
    unused = ("_cffi.cpython-313-aarch64-linux-gnu.so",)
    repository = requiring(
        tmp_path, {f"zstandard/{name}": "" for name in files + unused} | {"psutil/__init__.py": ""}
    )

    built = layer.build(repository, "arm64") / "python"

    assert {path.name for path in (built / "zstandard").iterdir()} == {*files[:2]}
    assert not (built / "psutil").exists()


def test_an_archive_has_the_same_bytes_at_each_build(repository: Path) -> None:
    archive = layer.archive(repository, "arm64")
    first = archive.read_bytes()
    archive.unlink()

    assert layer.archive(repository, "arm64").read_bytes() == first


def test_the_layer_has_each_service_that_functions_call() -> None:
    code = (
        "".join(file.read_text() for room in ("core", *FEATURES) for file in files_of(room))
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
        for layer_ in ("functions", "core", "wiring", *FEATURES)
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
