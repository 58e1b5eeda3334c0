"""Several servers of one model, as the replicas of a trainer: every call goes to one of them."""

from __future__ import annotations

import pytest
from scripted_server import ScriptedServer

from coevolve.errors import UsageError
from coevolve.models.chat import ChatRequest
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models


def test_a_conversation_stays_with_its_server(tmp_path):
    """Forty conversations of three turns: both servers get some, and each conversation, told by its
    sample, only one of them."""

    async def talk(number: int) -> list[str]:
        request = ChatRequest(
            model="m", messages=[{"role": "user", "content": "hello"}], sample=number
        )
        for turn in range(3):
            reply = await models.chat(request)
            messages = [
                *request.messages,
                reply.message,
                {"role": "user", "content": f"{number}, turn {turn}"},
            ]
            request = ChatRequest(model="m", messages=messages, sample=number)
        return [str(message["content"]) for message in messages if message["role"] == "assistant"]

    with ScriptedServer(lambda _: "first") as first, ScriptedServer(lambda _: "second") as second:
        urls = f"{first.url}, {second.url}"
        with Models(
            "s", ServiceOptions(base_url=urls, journal=str(tmp_path / "journal"))
        ) as models:
            heard = list(models.each(range(40), talk))
    assert len(first.requests) + len(second.requests) == 40 * 3
    assert 10 * 3 <= len(first.requests) <= 30 * 3
    assert all(len(answers) == 3 and len(set(answers)) == 1 for answers in heard)


@pytest.mark.parametrize("urls", ["http://localhost:1/v1,", "http://localhost:1/v1,localhost:2"])
def test_each_address_has_to_be_one(urls: str):
    """One bad address among several is refused before anything is sent."""
    with (
        pytest.raises(UsageError, match="is no address of a server"),
        Models("s", ServiceOptions(base_url=urls)) as models,
    ):
        models.close()
