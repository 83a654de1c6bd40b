"""Where limits come from: a process's settings and an app's own function."""
