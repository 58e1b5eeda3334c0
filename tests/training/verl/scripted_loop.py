"""Plays our agent loop inside verl's own AgentLoopManagerTQ and TransferQueue, with a token server
that follows scripts.

The engine's name is vLLM's, so what the loop asks of it is what it asks on a GPU.

Arguments: a job.json, a file of scripts, a file of tasks, an output. A script is a list of replies
for each session; its name is the last word of the task's first user turn. Reply: text, then the end
token unless it ends in `…`; "" no token; "hang" no answer; "fail" an error. Written: one JSON
object per row of verl's batch, with the advantage of our estimator.
"""

import asyncio
import json
import sys
from pathlib import Path

import msgspec
import numpy as np

from coevolve import jsonl
from coevolve.records import Task
from coevolve.training.verl import overrides
from coevolve.training.verl.files import VerlJob

JOB_FILE, SCRIPTS, TASKS, OUT = sys.argv[1:]
JOB = msgspec.json.decode(Path(JOB_FILE).read_bytes(), type=VerlJob)

import ray  # noqa: E402
import transfer_queue as tq  # noqa: E402
from omegaconf import OmegaConf, open_dict  # noqa: E402
from verl.trainer.ppo.core_algos import get_adv_estimator_fn  # noqa: E402
from verl.trainer.ppo.v1 import AgentLoopManagerTQ  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.dataset.rl_dataset import collate_fn  # noqa: E402
from verl.workers.rollout.replica import TokenOutput  # noqa: E402

from coevolve.training.verl import estimator  # noqa: E402, F401 - registers
from coevolve.training.verl.agent_loop import packed  # noqa: E402
from coevolve.training.verl.compose import compose  # noqa: E402

VERSION = 7


class Scripted:
    """In the place of verl's LLMServerClient."""

    def __init__(self, model):
        self.model, self.tokenizer = model, None
        self.scripts = json.loads(Path(SCRIPTS).read_text())
        self.said = {}

    async def generate(self, request_id, *, prompt_ids, sampling_params, **_):
        if self.tokenizer is None:
            from transformers import AutoTokenizer

            self.tokenizer = AutoTokenizer.from_pretrained(self.model)
        assert sampling_params["stop_token_ids"] == [self.tokenizer.eos_token_id]
        text = self.tokenizer.decode(prompt_ids)
        name = text.split("<|user|>")[1].split("<|end|>")[0].split()[-1]
        turn = self.said.setdefault(request_id, 0)
        self.said[request_id] += 1
        reply = self.scripts[name][int(request_id.rsplit("-", 1)[1])][turn]
        if reply == "hang":
            await asyncio.sleep(1000)
        if reply == "fail":
            raise RuntimeError("the server is gone")
        ids = self.tokenizer.encode(reply.removesuffix("…"), add_special_tokens=False)
        if reply and not reply.endswith("…"):
            ids.append(self.tokenizer.eos_token_id)
        ids = ids[: sampling_params["max_tokens"]]
        logprobs = [-0.01 * (1 + len(prompt_ids) + n) for n in range(len(ids))]
        return TokenOutput(
            token_ids=ids, log_probs=logprobs, extra_fields={"global_steps": VERSION, **_versions()}
        )


def _versions():
    return {"min_global_steps": VERSION, "max_global_steps": VERSION}


def main():
    config = compose(
        [*JOB.overrides, "actor_rollout_ref.rollout.name=vllm", *overrides.fixed_overrides(JOB)]
    )
    with open_dict(config):
        config.transfer_queue.enable = True
    OmegaConf.resolve(config)
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    tq.init(config.transfer_queue)
    manager = AgentLoopManagerTQ.create(
        config=config,
        llm_client=Scripted(JOB.settings.model),
        teacher_client=None,
        reward_loop_worker_handles=None,
    )
    tasks = [line.record for line in jsonl.read([TASKS], Task)]
    rows = [
        {"raw_prompt": [], "index": n, "extra_info": packed(task, 1, "scripted", 0)}
        for n, task in enumerate(tasks)
    ]
    batch = collate_fn(rows)
    uids = [f"u{n}" for n in range(len(tasks))]
    batch["uid"] = np.array(uids, dtype=object)
    batch = tu.get_tensordict(batch)
    tu.assign_non_tensor_data(batch, "global_steps", VERSION + 1)
    tags = [{"is_prompt": True, "status": "pending", "global_steps": VERSION + 1} for _ in uids]
    tq.kv_batch_put(keys=uids, partition_id="train", tags=tags)
    manager.generate_sequences(batch)
    asyncio.run(settled())
    write(tasks)
    tq.close()
    ray.shutdown()


async def settled():
    """Until every group of verl's has come to an end."""
    while True:
        tags = tq.kv_list("train")["train"].values()
        if all(tag["status"] in ("finished", "failure") for tag in tags if tag.get("is_prompt")):
            return
        await asyncio.sleep(0.1)


def write(tasks):
    listed = tq.kv_list("train")["train"]
    keys = sorted(key for key, tag in listed.items() if not tag.get("is_prompt"))
    data = tq.kv_batch_get(keys=keys, partition_id="train")
    columns = {name: list(data[name].unbind()) for name in FIELDS}
    padded = data.select("response_mask", "rm_scores").to_padded_tensor(0)
    groups = np.array([key.rsplit("_", 2)[0] for key in keys], dtype=object)
    advantages, _ = get_adv_estimator_fn(overrides.ESTIMATOR)(
        padded["rm_scores"], padded["response_mask"], groups
    )
    with open(OUT, "w") as out:
        for n, key in enumerate(keys):
            uid, session, _ = key.split("_")
            row = {name: column[n].tolist() for name, column in columns.items()}
            row |= {"task": tasks[int(uid[1:])].id, "session": int(session), "tag": listed[key]}
            row |= {"advantages": advantages[n][: len(row["response_mask"])].tolist()}
            row |= {
                "summary": dict(data["extra_fields"][n])["coevolve"],
                "status": listed[uid]["status"],
            }
            out.write(json.dumps(row) + "\n")


FIELDS = (
    "prompts",
    "responses",
    "response_mask",
    "rollout_log_probs",
    "rm_scores",
    "input_ids",
    "position_ids",
)

if __name__ == "__main__":
    main()
