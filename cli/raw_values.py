"""Keeps Typer from converting values: newer releases import pydantic for it, which takes longer than a filter runs.

Values stay as they were typed; coevolve.options converts and checks them.
"""

from __future__ import annotations

from typing import Any

import typer


class RawValues:
    """Mixed into a command or a group: its parameters keep their texts and still call their callbacks."""

    def get_params(self, ctx: typer.Context) -> list[Any]:
        params = super().get_params(ctx)
        for parameter in params:
            parameter.process_value = _Kept(parameter)
        return params


class _Kept:
    def __init__(self, parameter: Any):
        self._parameter = parameter

    def __call__(self, ctx: typer.Context, value: Any) -> Any:
        callback = self._parameter.callback
        return callback(ctx, self._parameter, value) if callback and value else value
