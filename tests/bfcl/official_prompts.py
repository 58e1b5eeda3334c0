"""What BFCL's own handlers send over whole conversations; run by the bfcl-official venv's Python.

Reads requests {"entry": official id, "replies": {style: [reply, …]}} as JSON lines and prints, for
each, {style: [what is sent before each reply]}. The handlers' own inference loop runs; only the
query to the server is replaced, by one that records what would be sent and answers with the next of
the replies.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(str(Path(__file__).parents[2]))  # last: this interpreter has no coevolve

from coevolve.environments.workers.bfcl.official import replace_modules


def main() -> None:
    replace_modules()
    from bfcl_eval.utils import load_dataset_entry

    answers, sys.stdout = sys.stdout, sys.stderr
    entries: dict[str, dict] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["entry"] not in entries:
            category = request["entry"].rpartition("_")[0]
            entries |= {entry["id"]: entry for entry in load_dataset_entry(category)}
        entry, replies = entries[request["entry"]], request["replies"]
        answer = {
            style: record(player, copy.deepcopy(entry), replies[style])
            for style, player in STYLES.items()
        }
        print(json.dumps(answer), file=answers, flush=True)


def record(make: Any, entry: dict, replies: list[Any]) -> list[Any]:
    """What one handler sends for an entry, query by query."""
    sent: list[Any] = []
    player = make(sent, iter(replies))
    player.model_name_underline_replaced = f"prompts_{make.__name__}"
    player.inference(entry, include_input_log=False, exclude_state_log=True)
    return sent


def qwen_fc(sent: list[Any], replies: Any) -> Any:
    """Text completions; a reply is text."""
    from bfcl_eval.model_handler.local_inference.qwen_fc import QwenFCHandler

    player = QwenFCHandler("Qwen/Qwen3-8B-FC", 0, "Qwen/Qwen3-8B-FC", True)

    def query(inference_data: dict) -> tuple[Any, float]:
        sent.append(player._format_prompt(inference_data["message"], inference_data["function"]))
        return _response(text=next(replies)), 0.0

    player._query_prompting = query
    return player


def openai_tools(sent: list[Any], replies: Any) -> Any:
    """Chat completions with tools; a reply is an assistant message."""
    return _chat(sent, replies, fc=True)


def openai_prompting(sent: list[Any], replies: Any) -> Any:
    """Chat completions without tools; a reply is text."""
    return _chat(sent, replies, fc=False)


def _chat(sent: list[Any], replies: Any, *, fc: bool) -> Any:
    from bfcl_eval.model_handler.api_inference.openai_completion import OpenAICompletionsHandler
    from openai.types.chat import ChatCompletionMessage

    player = OpenAICompletionsHandler("stub", 0, "stub", fc)

    def generate(**request: Any) -> tuple[Any, float]:
        asked = request["messages"]
        messages = [m if isinstance(m, dict) else m.model_dump(exclude_unset=True) for m in asked]
        sent.append(copy.deepcopy({"messages": messages, "tools": request.get("tools", [])}))
        reply = next(replies)
        message = reply if fc else {"role": "assistant", "content": reply}
        return _response(message=ChatCompletionMessage.model_validate(message)), 0.0

    player.generate_with_backoff = generate
    return player


def _response(**choice: Any) -> SimpleNamespace:
    """A server's response with one choice, and no count of tokens."""
    usage = SimpleNamespace(prompt_tokens=0, completion_tokens=0)
    return SimpleNamespace(choices=[SimpleNamespace(**choice)], usage=usage)


STYLES = {"qwen-fc": qwen_fc, "openai": openai_tools, "prompting": openai_prompting}


if __name__ == "__main__":
    main()
