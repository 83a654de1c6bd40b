"""Builds the distributions, checks them, and plays the wheel in empty environments.

``make release-check`` runs it. Nothing of the checkout can be imported there: one environment plays
the command line, the demo and both adapters with real workers, and each example that has tests gets
an environment of its own, with what its README says to install. Only the examples are copied, and
the script of the real workers.
"""

from __future__ import annotations

import os
import re
import shlex
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
SMOKE = Path(__file__).with_name("smoke.py")
ADAPTERS = {"celery": "celery_app", "dramatiq": "dramatiq_app"}
"""Which example's app a real worker of each framework runs."""
DEMO_JOBS = "200"
PLAIN = """
import fairqueue, fairqueue_celery, fairqueue_dramatiq, sys
import fairqueue_web.asgi, fairqueue_web.wsgi
assert not {"django", "flask", "fastapi"} & set(sys.modules)
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


def examples_with_tests() -> list[Path]:
    """The examples that have tests of their own."""
    return sorted({path.parent for path in (ROOT / "examples").glob("*/test_*.py")})


def requirements(example: Path) -> list[str]:
    """What an example's README says to install, fairqueue with its extras first."""
    said = re.search(r"^\$ pip install (.*)$", (example / "README.md").read_text(), re.MULTILINE)
    assert said, f"the README of {example.name} has no line '$ pip install …'"
    found = shlex.split(said[1])
    assert found[0].startswith("fairqueue["), f"{example.name}: name fairqueue and its extras first"
    return found


def environment(folder: Path, wheel: Path, *, extras: str, others: Sequence[str]) -> Path:
    """Make an environment with nothing but the wheel, an example's needs and what these require.

    Returns the folder of its programs; ends unless fairqueue is imported from there.
    """
    run([sys.executable, "-m", "virtualenv", "--quiet", folder])
    programs = folder / "bin"
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run([programs / "python", *pip, f"{wheel}{extras}", *others])
    where = "import fairqueue; print(fairqueue.__file__)"
    imported = run([programs / "python", "-c", where], folder).strip()
    if not Path(imported).is_relative_to(folder):
        sys.exit(f"release-check: fairqueue was imported from {imported}, not from the wheel")
    return programs


def play(folder: Path, wheel: Path) -> None:
    """Import, the command line, the demo, and each adapter with real workers."""
    programs = environment(folder / "venv", wheel, extras=f"[{EXTRAS}]", others=())
    empty = folder / "empty"
    empty.mkdir()
    run([programs / "python", "-c", PLAIN], empty)
    if version() not in run([programs / "fairqueue", "--version"], empty):
        sys.exit(f"release-check: 'fairqueue --version' does not say {version()}")
    print(run([programs / "fairqueue", "demo", "--jobs", DEMO_JOBS], empty))
    script = shutil.copy(SMOKE, empty)
    for framework, example in ADAPTERS.items():
        copied = copy_of(ROOT / "examples" / example, empty)
        print(run([programs / "python", script, framework], copied))


def play_example(example: Path, folder: Path, wheel: Path) -> None:
    """Its own tests, as a reader of its README would run them."""
    fairqueue, *others = requirements(example)
    extras = fairqueue.removeprefix("fairqueue")
    programs = environment(folder / "venv", wheel, extras=extras, others=others)
    tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    print(run([programs / "python", *tests], copy_of(example, folder)))


def copy_of(example: Path, folder: Path) -> Path:
    """Copy an example without what Python left in it."""
    return shutil.copytree(
        example, folder / example.name, ignore=shutil.ignore_patterns("__pycache__")
    )


def main() -> None:
    """Check a release; anything wrong ends it."""
    sdist, wheel = build()
    run([sys.executable, "-m", "twine", "check", "--strict", sdist, wheel])
    run([Path(sys.executable).with_name("check-wheel-contents"), wheel])
    found = list(problems(sdist, wheel))
    if found:
        sys.exit("release-check: " + "\n".join(found))
    examples = examples_with_tests()
    with tempfile.TemporaryDirectory(prefix="fairqueue-release-") as name:
        folder = Path(name).resolve()
        play(folder, wheel)
        for example in examples:
            place = folder / f"of-{example.name}"
            place.mkdir()
            play_example(example, place, wheel)
            shutil.rmtree(place)
    names = ", ".join(example.name for example in examples)
    print(f"release-check: {sdist.name} and {wheel.name} are right; played: demo, ", end="")
    print(f"{' and '.join(ADAPTERS)} with real workers, and the tests of {names}")


if __name__ == "__main__":
    main()
