import hashlib
import threading
import zipfile
from pathlib import Path

import pytest

from infra import layer


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """One small pure package from a local folder: pip asks no index."""
    wheel = wheel_of(tmp_path)
    file = tmp_path / "requirements.txt"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    file.write_text(f"--no-index\n{wheel} --hash=sha256:{digest}\n")
    return file


def test_the_layer_holds_the_packages_without_pips_own_files(
    requirements: Path, tmp_path: Path
) -> None:
    built = layer.build(requirements=requirements, architecture="arm64", cache=tmp_path / "cache")

    files = sorted(str(path.relative_to(built)) for path in built.rglob("*") if path.is_file())
    assert files == [
        "python/tiny-1.0.dist-info/METADATA",
        "python/tiny-1.0.dist-info/WHEEL",
        "python/tiny.py",
    ]


def test_a_layer_is_built_once_for_the_same_requirements(
    requirements: Path, tmp_path: Path
) -> None:
    first = layer.build(requirements=requirements, architecture="arm64", cache=tmp_path / "cache")
    (first / "python" / "mark").touch()

    again = layer.build(requirements=requirements, architecture="arm64", cache=tmp_path / "cache")

    assert (again / "python" / "mark").exists()


def test_another_architecture_or_requirement_is_another_layer(requirements: Path) -> None:
    arm = layer.name(requirements=requirements, architecture="arm64")
    x86 = layer.name(requirements=requirements, architecture="x86_64")
    requirements.write_text(f"{requirements.read_text()}# changed\n")
    changed = layer.name(requirements=requirements, architecture="arm64")

    assert len({arm, x86, changed}) == 3


def test_two_builds_at_once_leave_one_complete_layer_and_nothing_else(
    requirements: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    built: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: built.append(
                layer.build(requirements=requirements, architecture="arm64", cache=cache)
            )
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert len(built) == 2
    assert list(cache.iterdir()) == [built[0]]
    assert (built[0] / "python" / "tiny.py").is_file()


def test_a_package_without_a_wheel_for_the_target_is_an_error_that_names_it(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("--no-index\nnot-to-be-found==1.0\n")

    with pytest.raises(
        layer.LayerError, match=r"No matching distribution found for not-to-be-found==1\.0"
    ):
        layer.build(requirements=requirements, architecture="arm64", cache=tmp_path / "cache")


def wheel_of(folder: Path) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny.py", "VERSION = 1\n")
        wheel.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return path
