"""Certificates that tests make for themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import trustme


def knows_tls(program: str) -> bool:
    """Whether a server was built with TLS: it stumbles over the second of these lines."""
    lines = "tls-port 0\nno-such-directive 1\n"
    told = subprocess.run([program, "-"], input=lines, capture_output=True, text=True, check=False)
    return "no-such-directive" in told.stdout + told.stderr


class Papers:
    """An authority and its certificates for server and client."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.authority, authority = folder / "ca.pem", trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        self.server = self._sign(authority, folder / "server", "127.0.0.1")
        self.client = self._sign(authority, folder / "client", "client@example.org")

    @staticmethod
    def _sign(authority: Any, base: Path, name: str) -> tuple[Path, Path]:
        signed = authority.issue_cert(name)
        certificate, key = base.with_suffix(".pem"), base.with_suffix(".key")
        certificate.write_bytes(b"".join(blob.bytes() for blob in signed.cert_chain_pems))
        signed.private_key_pem.write_to_path(str(key))
        return certificate, key
