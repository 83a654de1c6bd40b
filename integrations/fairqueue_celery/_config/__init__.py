"""Where the broker is, and how it is set."""
