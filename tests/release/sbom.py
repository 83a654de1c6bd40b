"""Writes what the wheel needs at run time into dist/, as CycloneDX: ``make sbom``.

The tool, cyclonedx-bom, has an environment of its own; the wheel's holds nothing else.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.release.check import DIST, ROOT, build, run, version


def components(path: Path) -> list[str]:
    """The name and version of all that an SBOM lists."""
    found = json.loads(path.read_text())["components"]
    return sorted(f"{one['name']} {one['version']}" for one in found)


def main() -> None:
    """Take the wheel of ``make release-check``, or build it."""
    wheels = list(DIST.glob(f"fairqueue-{version()}-*.whl"))
    wheel = wheels[0] if wheels else build()[1]
    out = DIST / f"fairqueue-{version()}.cdx.json"
    with tempfile.TemporaryDirectory(prefix="fairqueue-sbom-") as name:
        tool, plain = Path(name) / "tool", Path(name) / "plain"
        run([sys.executable, "-m", "virtualenv", "--quiet", tool])
        run([sys.executable, "-m", "virtualenv", "--quiet", "--no-seed", plain])
        python = plain / "bin" / "python"
        pip: list[str | Path] = [
            tool / "bin" / "python",
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run([*pip, "install", "cyclonedx-bom>=7,<8"])
        run([*pip, "--python", python, "install", wheel])
        cyclonedx: list[str | Path] = [tool / "bin" / "cyclonedx-py", "environment", python]
        about: list[str | Path] = ["--pyproject", ROOT / "pyproject.toml", "--output-file", out]
        run([*cyclonedx, *about, "--of", "JSON", "--output-reproducible", "--validate"])
    listed = components(out)
    needed = {"redis", "click"} - {name.split()[0] for name in listed}
    if needed:
        sys.exit(f"sbom: {out.name} does not list {', '.join(sorted(needed))}")
    print(f"sbom: {out.relative_to(ROOT)} lists {', '.join(listed)}")


if __name__ == "__main__":
    main()
