"""A process that asks a server ten questions through a journal, once it is told to on stdin:
`python asker.py URL JOURNAL`."""

import sys

from coevolve.models.chat import ChatRequest
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models


async def one(models: Models, number: int) -> str:
    return (
        await models.chat(
            ChatRequest(model="m", messages=[{"role": "user", "content": str(number)}])
        )
    ).text


with Models("s", ServiceOptions(base_url=sys.argv[1], journal=sys.argv[2])) as asking:
    print("ready", flush=True)
    sys.stdin.readline()
    print(*asking.each(range(10), lambda number: one(asking, number)), sep="\n", flush=True)
