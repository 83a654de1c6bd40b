"""Messages that kombu's own Redis transport has stored."""
