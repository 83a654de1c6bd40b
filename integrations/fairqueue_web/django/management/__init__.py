"""Commands of the Django app."""
