"""The memory store: the law, executable in one process; for tests and demos."""

from fairqueue._stores.memory.store import MemoryStore, open_memory

__all__ = ["MemoryStore", "open_memory"]
