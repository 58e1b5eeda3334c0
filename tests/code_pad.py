"""A pad that takes code as actions and keeps it as it came; it runs none. Run as a worker."""

from coevolve.environments.workers.serve import serve


class Pad:
    def describe(self):
        write = {
            "name": "write",
            "description": "write(text)",
            "parameters": {"type": "object", "properties": {}},
        }
        return {"name": "pad", "version": "1", "tools": [write], "actions": "code", "max_goals": 2}

    def open(self, start):
        return [], {"state": "0"}

    def step(self, lines, turn, action):
        if not isinstance(action, str) or "write" not in action:
            return {"observation": "nothing written", "error": "refused", "state": str(len(lines))}
        lines.append(action)
        effect = {
            "entity": "pad",
            "key": str(len(lines)),
            "field": "text",
            "op": "add",
            "value": action,
        }
        return {"observation": "ok", "effects": [effect], "state": str(len(lines))}

    def evaluate(self, lines, task):
        success = lines == [action for turn in task["solution"] for action in turn]
        return {"success": success, "score": float(success)}


if __name__ == "__main__":
    serve(Pad())
