"""Each peer's own environment below .peers/, so that the product's stays as it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from peers.catalogue import REQUIREMENTS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".peers" / "env"
ADAPTERS = Path(__file__).parent / "adapters"


class NotInstalledError(Exception):
    """The peer cannot be installed here; the text says why."""


def ready(name: str) -> str:
    """Install an environment if it is not there, and return the versions in it."""
    home = FOLDER / name
    done = home / ".versions"
    if not done.exists() or name == "fairqueue":  # the checkout may have changed
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        done.write_text(_npm(home, name) if name == "bullmq" else _pip(home, name))
    return done.read_text()


def _pip(home: Path, name: str) -> str:
    python = str(home / "bin" / "python")
    wanted = list(REQUIREMENTS[name])
    if name == "fairqueue":
        wanted = [f"{ROOT}[{','.join(wanted)}]"]
    uv = [sys.executable, "-m", "uv"]
    _run(*uv, "venv", "--quiet", "--python", sys.executable, home)
    _run(*uv, "pip", "install", "--quiet", "--python", python, *wanted)
    listed = json.loads(_run(*uv, "pip", "list", "--python", python, "--format=json"))
    names = {name, *(one.partition("[")[0] for one in REQUIREMENTS[name])}
    return ", ".join(f"{one['name']} {one['version']}" for one in listed if one["name"] in names)


def _npm(home: Path, name: str) -> str:
    (home / "package.json").write_text("{}")
    _run("npm", "install", "--silent", "--prefix", home, *REQUIREMENTS[name])
    installed = json.loads((home / "node_modules" / name / "package.json").read_text())
    return f"{name} {installed['version']}, Node {_run('node', '--version').strip()}"


def _run(*command: str | Path) -> str:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise NotInstalledError(f"there is no {words[0]}") from None
    if done.returncode:
        raise NotInstalledError((done.stderr or done.stdout).strip()[-300:])
    return done.stdout


def command_of(environment: str, adapter: str, role: str) -> list[str]:
    """Return the command that plays an adapter, in its environment."""
    interpreter = "node" if adapter.endswith(".cjs") else str(FOLDER / environment / "bin/python")
    return [interpreter, str(ADAPTERS / adapter), role]


def variables(environment: str) -> dict[str, str]:
    """Return what the processes of an environment are told beside the fleet's own."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    modules = str(FOLDER / environment / "node_modules")
    return {**inherited, "NODE_PATH": modules, "PYTHONPATH": str(ADAPTERS)}
