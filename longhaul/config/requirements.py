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

from longhaul.config.errors import SettingsError

_ALONE: Final = ("--disable-pip-version-check", "--no-input")
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", re.MULTILINE)
_COMMENT: Final = re.compile(r"(^|\s)#.*")
_SECRET: Final = re.compile(r"//[^/\s]*@")
_STAMP: Final = ".of"

_BY_PATH: Final = (
    "is on this machine, and the build of the image has only requirements.txt and jobs/: publish "
    "it to an index, name it by https://, or put its modules into jobs/"
)
# What pip installs here and not in the image: a pattern of the line, and why.
_NOT_IN_IMAGE: Final = (
    (
        re.compile(r"-r|-c|--requirement\b|--constraint\b"),
        "names another file, and the build of the image has this one alone: write its lines here",
    ),
    (
        re.compile(r".*\$\{[A-Z0-9_]+\}"),
        "needs a variable that the build of the image does not have: use an index without a secret",
    ),
    (
        re.compile(r"(.*[\s=@])?(git|hg|svn|bzr)\+", re.IGNORECASE),
        "is a repository, which the build of the image cannot fetch: name an archive by https://",
    ),
    (
        re.compile(f".*:{_SECRET.pattern}"),
        "has a user or a password, which the build of the image would keep: use an index without",
    ),
    (re.compile(r"-e|--editable\b"), _BY_PATH),
    (re.compile(r"(.*[\s=@])?file:", re.IGNORECASE), _BY_PATH),
    (
        re.compile(r"(-f|-i|--find-links|--index-url|--extra-index-url)[\s=]*(?![\s=]|https?://)"),
        _BY_PATH,
    ),
    # As pip tells a path from a name: by a dot, a slash, or an archive's extension.
    (re.compile(r"(?!-)(\.|[^\s;@:]*([/\\]|\.(whl|zip|tar|tgz|tar\.\w+)\b))"), _BY_PATH),
)


def lines_of(requirements: Path) -> Mapping[int, str]:
    """What the file has for pip, by line; the file may be missing."""
    if not requirements.is_file():
        return {}
    lines = enumerate(requirements.read_text("utf-8").splitlines(), 1)
    return {n: text for n, line in lines if (text := _COMMENT.sub("", line).strip())}


def check_for_image(requirements: Path) -> None:
    """Refuse what the build of the image could not install, though this machine can.

    Raises:
        SettingsError: some requirements are such; all are named, with their lines.
    """
    found = [
        f"{requirements}:{number}: {_SECRET.sub('//…@', line)}: {why}"
        for number, line in lines_of(requirements).items()
        if (why := next((why for pattern, why in _NOT_IN_IMAGE if pattern.match(line)), None))
    ]
    if found:
        raise SettingsError("\n".join(found))


def constraints(repository: Path) -> str:
    """The packages of the image, as pip's constraints."""
    return "".join(f"{name}=={version}\n" for name, version in _ours(repository).items())


def _ours(repository: Path) -> Mapping[str, str]:
    return dict(_PIN.findall((repository / "longhaul/runner/requirements.lock").read_text("utf-8")))


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
    wanted = requirements.read_text("utf-8") if lines_of(requirements) else ""
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
        try:
            folder.rename(target)
        except OSError:
            # Another process installed the same meanwhile.
            if not (target / _STAMP).is_file() or (target / _STAMP).read_text() != stamp:
                raise


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
        raise SettingsError(explained(requirements, f"{done.stdout}\n{done.stderr}"))


def explained(requirements: Path, said: str) -> str:
    """Pip's error, at the line of the requirement that it names."""
    text = "\n".join([line for line in said.splitlines() if line.strip()][-16:])
    why = "clashes with what the image holds" if "(constraint)" in text else "does not install"
    lines = lines_of(requirements)
    errors = said[max(0, said.find("ERROR:")) :]  # what came before may name any line
    named = [n for n, line in lines.items() if f"(line {n})" in errors or line in errors]
    where = f"{requirements}:{named[0]}: {lines[named[0]]}" if len(named) == 1 else requirements
    return f"{where}: {why}:\n{text}"


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
