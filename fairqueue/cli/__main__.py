"""Run the command line as ``python -m fairqueue.cli`` when the script is not on PATH."""

from __future__ import annotations

from fairqueue.cli import main

main(prog_name="fairqueue")
