"""What a tool's JSON Schema says of its parameters, and values that fit it.

Nothing here fails: a schema that says nothing gets a short text.
"""

from __future__ import annotations

import random
from typing import Any

from coevolve.environments.protocol import Tool

Schema = dict[str, Any]
Shape = tuple[str, ...]  # The parameters that a call fills in, in the schema's order

SHORT_TEXTS = "apple river garden letter window market summer silver engine paper".split()
PYTHON_TYPES = {"string": str, "boolean": bool, "object": dict, "null": type(None)}


def properties(tool: Tool) -> dict[str, Schema]:
    return tool.parameters.get("properties", {})


def required(tool: Tool) -> Shape:
    wanted = tool.parameters.get("required", [])
    return tuple(name for name in properties(tool) if name in wanted)


def shapes(tool: Tool) -> list[Shape]:
    """The shapes worth trying: the required parameters alone, with each optional one, with all of
    them, with what each alternative of `anyOf` and `oneOf` requires."""
    base = required(tool)
    optional = [name for name in properties(tool) if name not in base]
    alternatives = [tool.parameters.get(key, []) for key in ("anyOf", "oneOf")]
    extras = [[], *([name] for name in optional), optional]
    extras += [one.get("required", []) for choice in alternatives for one in choice]
    found = (tuple(n for n in properties(tool) if n in base or n in extra) for extra in extras)
    return list(dict.fromkeys(found))


def usual_shape(rng: random.Random, tool: Tool, optional: float = 0.3) -> Shape:
    """The required parameters, and each optional one with the given probability."""
    base = required(tool)
    return tuple(name for name in properties(tool) if name in base or rng.random() < optional)


def fits(value: Any, schema: Schema) -> bool:
    """Whether a value has the type that a schema asks for, and is in its enum and bounds."""
    if "enum" in schema and value not in schema["enum"]:
        return False
    kind = schema.get("type")
    if isinstance(kind, list):
        return any(fits(value, {**schema, "type": one}) for one in kind)
    if kind == "array":
        items = schema.get("items", {})
        return isinstance(value, list) and all(fits(member, items) for member in value)
    if kind in ("integer", "number"):
        number = int if kind == "integer" else (int, float)
        if isinstance(value, bool) or not isinstance(value, number):
            return False
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return kind not in PYTHON_TYPES or isinstance(value, PYTHON_TYPES[kind])


def invent(rng: random.Random, schema: Schema) -> Any:
    """A value from the schema alone."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if schema.get("default") is not None and rng.random() < 0.3:
        return schema["default"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    low = schema.get("minimum", 1)
    if kind == "integer":
        return rng.randint(int(low), int(schema.get("maximum", low + 19)))
    if kind == "number":
        return round(rng.uniform(low, schema.get("maximum", low + 99)), 1)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        count = max(schema.get("minItems", 1), rng.randint(1, 3))
        return [invent(rng, schema.get("items", {})) for _ in range(count)]
    if kind == "object":
        inner, wanted = schema.get("properties", {}), schema.get("required", [])
        names = [name for name in inner if name in wanted or rng.random() < 0.5]
        return {name: invent(rng, inner[name]) for name in names or list(inner)[:1]}
    return rng.choice(SHORT_TEXTS)
