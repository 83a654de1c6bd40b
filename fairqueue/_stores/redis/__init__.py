"""The Redis store."""

from fairqueue._stores.redis.store import RedisStore

__all__ = ["RedisStore"]
