"""The engine that runs in this process."""

from fairqueue._stores.memory.engine import Database, MemoryEngine, open_memory

__all__ = ["Database", "MemoryEngine", "open_memory"]
