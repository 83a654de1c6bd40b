"""From a call of a task to a job in the core."""
