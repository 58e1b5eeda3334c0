"""How calls are written as AppWorld code: logins, access tokens, whole pages, and the call that
completes the task.

A call action leaves out what no request says: access tokens and the size of a page. The worker adds
them when it makes the call; a program has them itself, in the same way (`protocol.CodeSyntax`).
"""

from __future__ import annotations

import json
from typing import Any

PAGE_ROWS = 20  # The most that AppWorld gives
END = "supervisor.complete_task"
_TOKENS = {"access_token", "file_system_access_token"}


def left_out(parameters: list[dict]) -> list[str]:
    """Returns the names of an API's documented parameters that call actions leave out."""
    names = [parameter["name"] for parameter in parameters]
    return [name for name in names if name in _TOKENS or name == "page_limit"]


def as_printed(value: Any) -> str:
    """Returns a response as AppWorld's `print` shows it in a cell."""
    if isinstance(value, str):
        return value
    short = json.dumps(value)
    return short if len(short) < 100 else json.dumps(value, indent=1)


def code(tools: list[dict]) -> dict:
    """Returns the `protocol.CodeSyntax` of tools that carry AppWorld's documents."""
    arguments = {t["name"]: _arguments(t["app"], t["document"]["parameters"]) for t in tools}
    apps = sorted(tool["app"] for tool in tools if tool["name"].endswith(".login"))
    return {
        "call": "apis.{tool}({arguments})",
        "setup": _setup(apps),
        "arguments": {name: added for name, added in arguments.items() if added},
        "end": f"apis.{END}()",
        "ends": [END],
    }


def _arguments(app: str, parameters: list[dict]) -> dict[str, str]:
    written = {
        "page_limit": str(PAGE_ROWS),
        "access_token": f"{app}_token",
        "file_system_access_token": "file_system_token",
    }
    return {name: written[name] for name in left_out(parameters)}


def _setup(apps: list[str]) -> dict[str, str]:
    rows = "apis.supervisor.show_account_passwords()"
    statements = {
        "passwords": f'passwords = {{row["account_name"]: row["password"] for row in {rows}}}',
        "profile": "profile = apis.supervisor.show_profile()",
    }
    for app in apps:
        user = 'profile["phone_number"]' if app == "phone" else 'profile["email"]'
        login = f'apis.{app}.login(username={user}, password=passwords["{app}"])'
        statements[f"{app}_token"] = f'{app}_token = {login}["access_token"]'
    return statements
