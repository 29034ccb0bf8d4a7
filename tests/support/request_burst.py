"""A process that makes many requests at once in the name of one key, and prints how many got through.

`python -m tests.support.request_burst REDIS_URL COUNT LIMIT`
"""

import asyncio
import sys

from redis.asyncio import Redis

from saiten_server.platform.redis.request_limits import RedisRequestLimiter


async def burst(url: str, count: int, limit: int) -> int:
    client = Redis.from_url(url)
    limiter = RedisRequestLimiter(client, timeout_seconds=30)
    told = await asyncio.gather(*(limiter.take("key_1", limit) for _ in range(count)))
    await limiter.close()
    await client.aclose()
    return sum(one.allowed for one in told)


if __name__ == "__main__":
    print(asyncio.run(burst(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
