"""How calls are written as AppWorld code: logging in, access tokens, whole pages, and the call that completes the task.

A call action leaves out what no request says: access tokens and the size of a page. The worker fills them in when it makes the
call; a program says them itself, in the same way (`protocol.Code`).
"""

from __future__ import annotations

PAGE = 20
"""Rows of a page, the most that AppWorld gives."""
END = "supervisor.complete_task"
_TOKENS = {"access_token", "file_system_access_token"}


def left_out(parameters: list[dict]) -> list[str]:
    """Those of an API's documented parameters that call actions leave out."""
    names = [parameter["name"] for parameter in parameters]
    return [name for name in names if name in _TOKENS or name == "page_limit"]


def code(tools: list[dict]) -> dict:
    """`protocol.Code` for tools that carry AppWorld's documents."""
    arguments = {
        tool["name"]: _arguments(tool["app"], tool["document"]["parameters"]) for tool in tools
    }
    apps = sorted(tool["app"] for tool in tools if tool["name"].endswith(".login"))
    return {
        "call": "apis.{tool}({arguments})",
        "setup": _setup(apps),
        "arguments": {name: added for name, added in arguments.items() if added},
        "end": f"apis.{END}()",
        "ends": [END],
    }


def _arguments(app: str, parameters: list[dict]) -> dict[str, str]:
    said = {
        "page_limit": str(PAGE),
        "access_token": f"{app}_token",
        "file_system_access_token": "file_system_token",
    }
    return {name: said[name] for name in left_out(parameters)}


def _setup(apps: list[str]) -> dict[str, str]:
    accounts = "apis.supervisor.show_account_passwords()"
    statements = {
        "passwords": f'passwords = {{row["account_name"]: row["password"] for row in {accounts}}}',
        "profile": "profile = apis.supervisor.show_profile()",
    }
    for app in apps:
        user = 'profile["phone_number"]' if app == "phone" else 'profile["email"]'
        login = f'apis.{app}.login(username={user}, password=passwords["{app}"])'
        statements[f"{app}_token"] = f'{app}_token = {login}["access_token"]'
    return statements
