"""fairqueue and its peers side by side, in one run on the same cores: ``make peers``."""
