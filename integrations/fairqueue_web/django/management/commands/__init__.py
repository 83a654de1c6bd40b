"""Commands of the Django app, by their modules' names."""
