"""What a project's jobs import beside what the image holds: `requirements.txt`, resolved by pip.

Our own packages are constraints: a requirement that needs another version of one is refused. pip's
own hash mode is on where the file gives hashes.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from infra.settings import SettingsError

_ALONE: Final = ("--disable-pip-version-check", "--no-input")
_LINE: Final = re.compile(r"\(line (\d+)\)")
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.MULTILINE)
_STAMP: Final = ".of"


def names_any(requirements: Path) -> bool:
    """Whether the file names a package, or anything else for pip."""
    if not requirements.is_file():
        return False
    lines = requirements.read_text("utf-8").splitlines()
    return any(line.strip() and not line.lstrip().startswith("#") for line in lines)


def constraints(repository: Path) -> str:
    """The packages of the image, as pip's constraints."""
    return "".join(f"{name}=={version}\n" for name, version in _ours(repository).items())


def _ours(repository: Path) -> Mapping[str, str]:
    return dict(_PIN.findall((repository / "jobs" / "requirements.lock").read_text("utf-8")))


def install(
    requirements: Path, target: Path, repository: Path, platform: Sequence[str] = ()
) -> None:
    """Install what the image does not hold into a folder, unless it holds just that already.

    Args:
        requirements: the project's file; it may be missing.
        target: the folder; it is replaced as a whole.
        repository: Longhaul's checkout.
        platform: pip's arguments for another platform than this one.

    Raises:
        SettingsError: a requirement does not install, or clashes with ours.
    """
    wanted = requirements.read_text("utf-8") if names_any(requirements) else ""
    limits = constraints(repository)
    stamp = hashlib.sha256(json.dumps([wanted, limits, *platform]).encode()).hexdigest()
    if (target / _STAMP).is_file() and (target / _STAMP).read_text() == stamp:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="installing-") as scratch:
        folder = Path(scratch) / "packages"
        folder.mkdir()
        if wanted:
            limit_file = Path(scratch) / "constraints.txt"
            limit_file.write_text(limits, "utf-8")
            found = _resolved(requirements, limit_file, platform)
            if lines := _beside(found, _ours(repository)):
                pinned = Path(scratch) / "pinned.txt"
                pinned.write_text("".join(f"{line}\n" for line in lines), "utf-8")
                _pip(
                    requirements,
                    ["install", "--no-deps", f"--target={folder}", f"-r{pinned}", *platform],
                )
        (folder / _STAMP).write_text(stamp)
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def _resolved(
    requirements: Path, limits: Path, platform: Sequence[str]
) -> Iterable[Mapping[str, Any]]:
    """What pip would install, without looking at what is installed here."""
    report = limits.with_name("report.json")
    # Written to by nothing: pip wants it where the platform is another one.
    target = limits.with_name("unused")
    _pip(
        requirements,
        [
            *("install", "--dry-run", "--ignore-installed", f"--report={report}"),
            *(f"-r{requirements}", f"-c{limits}", f"--target={target}", *platform),
        ],
    )
    found: Iterable[Mapping[str, Any]] = json.loads(report.read_text("utf-8"))["install"]
    return found


def _beside(found: Iterable[Mapping[str, Any]], ours: Mapping[str, str]) -> list[str]:
    """Lines for pip, without the packages that the image holds: their versions are the same."""
    held = {_plain(name) for name in ours}
    lines = []
    for each in found:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        if _plain(name) in held:
            continue
        source = each["download_info"]
        digest = source.get("archive_info", {}).get("hashes", {}).get("sha256")
        where = f"{name} @ {source['url']}" if each["is_direct"] else f"{name}=={version}"
        lines.append(f"{where} --hash=sha256:{digest}" if digest else where)
    return lines


def _pip(requirements: Path, arguments: Sequence[str]) -> None:
    command, *options = arguments
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pip", command, *_ALONE, *options],
        check=False,
        capture_output=True,
        text=True,
        cwd=requirements.parent,  # a relative path in the file is beside it
    )
    if done.returncode != 0:
        # The conflict is explained on stdout, and named on stderr.
        raise SettingsError(_explained(requirements, f"{done.stdout}\n{done.stderr}"))


def _explained(requirements: Path, said: str) -> str:
    """Pip's error, at the line of the requirement that it names."""
    text = "\n".join([line for line in said.splitlines() if line.strip()][-16:])
    lines = requirements.read_text("utf-8").splitlines()
    if (named := _LINE.search(said)) and int(named[1]) <= len(lines):
        number = int(named[1])
        return f"{requirements}:{number}: {lines[number - 1].strip()}: does not install:\n{text}"
    for number, line in enumerate(lines, 1):
        name = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", line)
        if name and re.search(rf"(?<![\w-]){re.escape(name[1])}(?![\w-])", text, re.IGNORECASE):
            return f"{requirements}:{number}: {line.strip()}: does not install:\n{text}"
    return f"{requirements}: does not install:\n{text}"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
