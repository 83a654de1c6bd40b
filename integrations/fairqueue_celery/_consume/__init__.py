"""From a free process to a leased job, and from its end back to the core."""
