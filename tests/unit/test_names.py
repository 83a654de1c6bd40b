"""Nearly all text is allowed as a name; an error says why other text is not."""

from __future__ import annotations

from uuid import UUID

import pytest

from fairqueue import ConfigurationError
from fairqueue._validation import check_name
from fairqueue.adapters import new_job_id


@pytest.mark.parametrize("value", [42, -1, UUID(int=5)])
def test_a_number_or_uuid_is_a_workspace(value: int | UUID) -> None:
    """It becomes text; a queue or task must be text."""
    assert check_name("workspace", value) == str(value)
    with pytest.raises(ConfigurationError, match="must be a str"):
        check_name("queue", value)


def test_a_task_name_may_be_empty() -> None:
    """Jobs may be published without a task; queues must have a name."""
    assert check_name("task", "") == ""
    with pytest.raises(ConfigurationError, match="queue name must not be empty"):
        check_name("queue", "")


def test_a_job_id_is_not_a_command_line_option() -> None:
    """It never begins with a dash."""
    assert not any(new_job_id().startswith("-") for _ in range(1000))
