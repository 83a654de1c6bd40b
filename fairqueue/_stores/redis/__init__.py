"""The engine that runs on a Redis server."""

from fairqueue._stores.redis.engine import RedisEngine

__all__ = ["RedisEngine"]
