"""BFCL's official prompts, byte for byte: what its handlers send for the same documents and the same conversation.

Source: bfcl-eval 2026.3.23, `qwen_fc.QwenFCHandler._format_prompt`, `utils.convert_to_tool` (OpenAI completions),
`utils.formulate_system_prompt` in its default configuration, and the loader that adds a sentence on Python to every document.
The tests run those handlers on official tasks and compare (marker `official`).

A tool without a document (`Tool.document`) is another benchmark's, and refused.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.records import Call

Message = dict[str, Any]

_SYNTAX = " Note that the provided function is in Python 3 syntax."
_TYPES = {
    "integer": "integer",
    "number": "number",
    "float": "number",
    "string": "string",
    "boolean": "boolean",
    "array": "array",
    "dict": "object",
    "object": "object",
    "any": "string",
}
_SYSTEM = (
    "You are an expert in composing functions."
    "You are given a question and a set of possible functions. Based on the question, you will need to make one or more "
    "function/tool calls to achieve the purpose. If none of the functions can be used, point it out. If the given question "
    "lacks the parameters required by the function, also point it out.\n\n"
    "You should only return the function calls in your response.\n\n"
    "If you decide to invoke any of the function(s), you MUST put it in the format of "
    "[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)].  "
    "You SHOULD NOT include any other text in the response.\n\n"
    "At each turn, you should try your best to complete the tasks requested by the user within the current turn. Continue to "
    "output functions to call until you have fulfilled the user's request to the best of your ability. Once you have no more "
    "functions to call, the system will consider the current turn complete and proceed to the next turn or task.\n\n"
    "Here is a list of functions in json format that you can invoke.\n"
)
PYTHON_FORM = "Write [func_name(params_name=params_value)] and no other text."
QWEN_FORM = (
    'Write <tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>.'
)
"""How these prompts want a call, in a sentence of our own for hints."""
_QWEN_TOOLS = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_QWEN_FORM = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)


def documents(tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
    """The tools' own documents. Those offered from the beginning get the sentence that the official loader adds, and those
    that a later turn adds do not. Raises UsageError for a tool of another benchmark's."""
    first = [
        {**source, "description": source["description"] + _SYNTAX}
        for source in map(_document, tools)
    ]
    return [*first, *map(_document, later)]


def _document(tool: Tool) -> dict[str, Any]:
    if tool.document is None:
        raise UsageError(
            f"the prompts openai, prompting and qwen-fc are BFCL's, and the tool {tool.name} has no document for them"
        )
    return tool.document


def openai_tools(tools: Sequence[Tool], later: Sequence[Tool] = ()) -> list[dict[str, Any]]:
    """The tools as BFCL's OpenAI handler sends them: its own type names replaced, floats marked, responses kept."""
    converted = copy.deepcopy(documents(tools, later))
    for item in converted:
        item["parameters"]["type"] = "object"
        _cast(item["parameters"].get("properties", {}))
    return [{"type": "function", "function": item} for item in converted]


def _cast(properties: dict[str, Any]) -> None:
    """Replaces type names in place, in properties and in what lies in them."""
    for schema in properties.values():
        kind = schema.get("type")
        if kind == "float":
            schema["format"] = "float"
            schema["description"] += " This is a float type value."
        schema["type"] = _TYPES.get(kind, "string")
        if schema["type"] in ("array", "object"):
            if "properties" in schema:
                _cast(schema["properties"])
            elif "items" in schema:
                _cast_items(schema["items"])


def _cast_items(items: dict[str, Any]) -> None:
    """The items of a list: two levels down, as far as the official conversion goes."""
    items["type"] = _TYPES[items["type"]]
    inner = items.get("items")
    if items["type"] == "object" and "properties" in items:
        _cast(items["properties"])
    elif items["type"] == "array" and inner is not None:
        inner["type"] = _TYPES[inner["type"]]
        if inner["type"] == "object" and "properties" in inner:
            _cast(inner["properties"])


def system_prompt(tools: Sequence[Tool]) -> str:
    """The system text of the prompting models."""
    return f"{_SYSTEM}{json.dumps(documents(tools), indent=4)}\n"


def results_text(calls: Sequence[Call], observations: Sequence[str]) -> str:
    """The user message that answers calls of a prompting model."""
    return repr(
        [
            {"role": "tool", "name": call_text(call), "content": observation}
            for call, observation in zip(calls, observations, strict=False)
        ]
    )


def call_text(call: Call) -> str:
    """A call as BFCL writes it in text."""
    return (
        f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"
    )


def qwen_fc(messages: list[Message], tools: list[dict[str, Any]]) -> str:
    """The whole prompt of the Qwen function-calling models, up to where the next reply begins."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    parts = []
    if tools:
        listed = "".join(f"\n{json.dumps(tool)}" for tool in tools)
        lead = "" if system is None else f"{system}\n\n"
        parts.append(_frame("system", f"{lead}{_QWEN_TOOLS}{listed}{_QWEN_FORM}"))
    elif system is not None:
        parts.append(_frame("system", system))
    asked = max((i for i, m in enumerate(messages) if _is_query(m)), default=len(messages) - 1)
    for i, message in enumerate(messages):
        match message["role"]:
            case "user":
                parts.append(_frame("user", message["content"]))
            case "system" if i:
                parts.append(_frame("system", message["content"]))
            case "assistant":
                parts.append(
                    _frame("assistant", _reply(message, i > asked, i == len(messages) - 1))
                )
            case "tool":
                first = i == 0 or messages[i - 1]["role"] != "tool"
                last = i == len(messages) - 1 or messages[i + 1]["role"] != "tool"
                block = f"\n<tool_response>\n{message['content']}\n</tool_response>"
                parts.append(
                    ("<|im_start|>user" if first else "") + block + ("<|im_end|>\n" if last else "")
                )
    return "".join(parts) + "<|im_start|>assistant\n"


def _frame(role: str, content: str) -> str:
    return f"<|im_start|>{role}\n{content}<|im_end|>\n"


def _is_query(message: Message) -> bool:
    content = message["content"]
    answered = content.startswith("<tool_response>") and content.endswith("</tool_response>")
    return message["role"] == "user" and not answered


def _reply(message: Message, since_query: bool, last: bool) -> str:
    """An assistant message in the history. Reasoning is shown only after the last query of the user."""
    content, reasoning = message["content"] or "", message.get("reasoning_content") or ""
    if not reasoning and "</think>" in content:
        reasoning = content.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
        content = content.split("</think>")[-1].lstrip("\n")
    text = content
    if since_query and (last or reasoning):
        text = f"<think>\n{reasoning.strip(chr(10))}\n</think>\n\n" + content.lstrip("\n")
    calls = message.get("tool_calls") or []
    for call in calls:
        if content or call != calls[0]:
            text += "\n"
        function = call.get("function", call)
        arguments = function["arguments"]
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        text += (
            f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {written}}}\n</tool_call>'
        )
    return text
