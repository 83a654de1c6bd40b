"""Which names of workspaces, queues, tasks and namespaces are allowed."""

from __future__ import annotations

import secrets

from fairqueue.errors import ConfigurationError

MAX_BYTES = {"workspace": 200, "queue": 255, "task": 255, "namespace": 100, "unique key": 255}
EMPTY_ALLOWED = frozenset({"task"})
ID_BYTES = 12  # 96 random bits; 16 characters, so that a waiting job stays small


def new_job_id() -> str:
    """A random id; it does not begin with the ``-`` that a command line takes for an option."""
    return secrets.token_urlsafe(ID_BYTES).replace("-", "_")


def check_name(kind: str, name: object) -> str:
    """Return the name if it may stand for this kind of thing, else raise ConfigurationError.

    Any UTF-8 text up to ``MAX_BYTES[kind]`` bytes: names are encoded before they meet a key.
    """
    if not isinstance(name, str):
        raise ConfigurationError(
            f"a {kind} name must be a str, not {type(name).__name__}: "
            f"convert it, or return None for no {kind}"
        )
    if not name and kind not in EMPTY_ALLOWED:
        raise ConfigurationError(f"a {kind} name must not be empty")
    return _check_bytes(kind, name)


def check_text(kind: str, text: object) -> str:
    """Return a job's id or the like if it is text that can be stored; of any length."""
    if not isinstance(text, str):
        raise ConfigurationError(f"a {kind} must be a str, not {type(text).__name__}")
    _size(kind, text)
    return text


def _size(kind: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"the {kind} {ascii(text)[:80]} is not valid UTF-8 (it holds a lone surrogate)"
        ) from None


def _check_bytes(kind: str, name: str) -> str:
    size = _size(f"{kind} name", name)
    if size > MAX_BYTES[kind]:
        raise ConfigurationError(
            f"the {kind} name {name[:40]!r}… is {size} bytes long, "
            f"at most {MAX_BYTES[kind]} are allowed: shorten or hash it"
        )
    return name


def check_namespace(name: object) -> str:
    """Return the key prefix if it is printable and holds no brace (those mark a hash tag)."""
    text = check_name("namespace", name)
    if not text.isprintable() or "{" in text or "}" in text:
        raise ConfigurationError(
            f"the namespace {text!r} must be printable and hold neither '{{' nor '}}'"
        )
    return text
