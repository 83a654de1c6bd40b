"""Builds the distributions, checks them, and plays the wheel in an empty environment.

``make release-check`` runs it. Nothing of the checkout is importable there; only the examples are
copied, which are tests of both adapters.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
EXTRAS = "celery,dramatiq,memory,demo"
EXAMPLES = ("celery_app", "dramatiq_app")
DEMO_JOBS = "200"
PLAIN = """
import fairqueue, fairqueue_celery, fairqueue_dramatiq, sys
import fairqueue_web.asgi, fairqueue_web.wsgi
assert not {"django", "flask", "fastapi"} & set(sys.modules)
print(fairqueue.__file__)
"""


def run(command: Sequence[str | Path], where: Path = ROOT) -> str:
    """Run a command, show it, and return its output; end with its output if it fails."""
    shown = " ".join(map(str, command))
    print(f"$ {shown}", flush=True)
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FAIRQUEUE_"))}
    done = subprocess.run(
        list(map(str, command)),
        cwd=where,
        env=outside,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nrelease-check: this failed: {shown}")
    return done.stdout


def version() -> str:
    """The version in pyproject.toml."""
    found = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found
    return found[1]


def build() -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", DIST, ROOT])
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    return sdist, wheel


def problems(sdist: Path, wheel: Path) -> Iterator[str]:
    """What neither twine nor check-wheel-contents looks at."""
    of = version()
    if f"\n## {of}" not in (ROOT / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md has no section for {of}"
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run(["git", "ls-files", "fairqueue", "integrations"]).split()
    for name in tracked:
        if name not in in_sdist:
            yield f"{name} is not in the sdist"
        if name.removeprefix("integrations/") not in in_wheel:
            yield f"{name} is not in the wheel"
    strays = {name for name in in_wheel if name.startswith(("tests/", "benchmarks/", "docs/"))}
    yield from (f"{name} is in the wheel" for name in sorted(strays))


def environment(folder: Path, wheel: Path) -> Path:
    """Make an environment with nothing but the wheel and what it requires; return its programs."""
    run([sys.executable, "-m", "virtualenv", "--quiet", folder])
    programs = folder / "bin"
    pip: list[str | Path] = [
        programs / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    run([*pip, f"{wheel}[{EXTRAS}]", "pytest"])
    return programs


def play(programs: Path, folder: Path) -> None:
    """Import, the command line, the demo, and both examples."""
    imported = run([programs / "python", "-c", PLAIN], folder).strip()
    if not Path(imported).is_relative_to(programs.parent):
        sys.exit(f"release-check: fairqueue was imported from {imported}, not from the wheel")
    if version() not in run([programs / "fairqueue", "--version"], folder):
        sys.exit(f"release-check: 'fairqueue --version' does not say {version()}")
    print(run([programs / "fairqueue", "demo", "--jobs", DEMO_JOBS], folder))
    for example in EXAMPLES:
        copied = shutil.copytree(ROOT / "examples" / example, folder / example)
        print(run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"], copied))


def main() -> None:
    """Check a release; anything wrong ends it."""
    sdist, wheel = build()
    run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel])
    run([Path(sys.executable).with_name("check-wheel-contents"), wheel])
    found = list(problems(sdist, wheel))
    if found:
        sys.exit("release-check: " + "\n".join(found))
    with tempfile.TemporaryDirectory(prefix="fairqueue-release-") as name:
        folder = Path(name)
        programs = environment(folder / "venv", wheel)
        (folder / "empty").mkdir()
        play(programs, folder / "empty")
    print(f"release-check: {sdist.name} and {wheel.name} are right")


if __name__ == "__main__":
    main()
