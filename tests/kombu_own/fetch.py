"""Fetches kombu's own integration tests, from the source distribution of the installed version.

python -m tests.kombu_own.fetch     unpacks them below .peers/, once per version, and prints where
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2] / ".peers"
FILES = ("__init__.py", "common.py", "test_redis.py")


def home() -> Path:
    """Return the folder of the installed version's tests, a Python package."""
    return ROOT / f"kombu-{version('kombu')}" / "integration"


def fetch() -> Path:
    """Download and unpack the tests if they are not there."""
    folder = home()
    if not (folder / FILES[-1]).exists():
        with TemporaryDirectory() as downloads:
            _unpack(_download(Path(downloads)), folder)
    return folder


def _download(folder: Path) -> Path:
    wanted = f"kombu=={version('kombu')}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-binary", "kombu", "--dest", folder, wanted], check=True)
    [archive] = folder.glob("kombu-*.tar.gz")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as opened:
        for name in FILES:
            inside = opened.extractfile(f"kombu-{version('kombu')}/t/integration/{name}")
            assert inside is not None
            (folder / name).write_bytes(inside.read())


if __name__ == "__main__":
    print(fetch())  # noqa: T201
