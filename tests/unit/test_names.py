"""Names: nearly all text is allowed; what is not is told why."""

from __future__ import annotations

import pytest

from fairqueue import ConfigurationError, new_job_id
from fairqueue._names import check_name


@pytest.mark.parametrize(
    "name", ["acme", "a b", "a:b", "*", "{x}", "a\nb", "🦊", "é" * 100, "x" * 200, "\x00"]
)
def test_any_text_is_a_workspace(name: str) -> None:
    """Spaces, braces, newlines, emoji and 200 bytes are fine."""
    assert check_name("workspace", name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be empty"),
        ("é" * 101, "202 bytes"),
        ("\udcff", "not valid UTF-8"),
        (None, "not NoneType"),
        (7, "not int"),
        (b"acme", "not bytes"),
    ],
)
def test_what_is_no_workspace_is_told_why(name: object, why: str) -> None:
    """Wrong type, length or encoding is one clear error each."""
    with pytest.raises(ConfigurationError, match=why):
        check_name("workspace", name)


def test_a_task_may_have_no_name() -> None:
    """Core users publish without a task; queues must have a name."""
    assert check_name("task", "") == ""
    with pytest.raises(ConfigurationError, match="queue name must not be empty"):
        check_name("queue", "")


def test_a_job_id_is_no_option() -> None:
    """It can be given to a command as it is."""
    assert not any(new_job_id().startswith("-") for _ in range(1000))
