"""How the server of the tests writes scores, so that two engines can be compared byte by byte."""

from __future__ import annotations

import secrets

import redis

from fairqueue._stores.memory.commands import ScoreText, score_text

MOST_ZEROS = 6
"""A longer fraction with a large exponent is written in scientific form."""
MOST_DECIMALS_EXPONENT = 4


def shortest(score: float) -> bytes:
    """Write a score as Redis 7.2, Valkey and their ``fpconv`` do."""
    sign, number = ("-", -score) if score < 0 else ("", score)
    mantissa, _, power = f"{number!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    shift = int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    shift += len(digits) - len(stripped)
    return (sign + _written(stripped or "0", shift)).encode()


def _written(digits: str, shift: int) -> str:
    """Write ``digits`` times ten to the power of ``shift``."""
    exponent = shift + len(digits) - 1
    if digits == "0":
        return "0"
    if shift >= 0 and exponent < len(digits) + 7:
        return digits + "0" * shift
    if shift < 0 and (shift > -MOST_ZEROS - 1 or abs(exponent) < MOST_DECIMALS_EXPONENT):
        point = len(digits) + shift
        return f"{digits[:point]}.{digits[point:]}" if point > 0 else "0." + "0" * -point + digits
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{tail}e{'+' if exponent >= 0 else '-'}{abs(exponent)}"


def score_text_of(client: redis.Redis) -> ScoreText:
    """Return how this server writes scores."""
    key = f"t-{secrets.token_hex(6)}"
    client.zadd(key, {"a": 0.1})
    written = client.eval("return redis.call('ZSCORE', KEYS[1], 'a')", 1, key)
    client.delete(key)
    return shortest if written == shortest(0.1) else score_text
