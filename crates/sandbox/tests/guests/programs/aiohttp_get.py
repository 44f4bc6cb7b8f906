import asyncio
import sys

import aiohttp


async def main():
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        for _ in range(2):
            async with session.get(sys.argv[1]) as answer:
                print(await answer.text())


asyncio.run(main())
