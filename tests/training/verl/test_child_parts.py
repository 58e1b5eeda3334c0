"""Parts of the child that need no Ray: its numbers per step, its sign of life, how it fails before
verl is there.
"""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from coevolve import jsonl
from coevolve.errors import Unreachable
from coevolve.training.metrics import RolloutSummary, summary
from coevolve.training.verl import main, measures, overrides
from coevolve.training.verl.files import Heartbeat, TrainerFailure, VerlFiles, read, write
from coevolve.training.verl.heartbeat import HeartbeatWriter

ENGINE = "coevolve_hf"


def row(group, success, reason="done"):
    return RolloutSummary(
        group=group,
        stop_reason=reason,
        error=None,
        success=success,
        reward=float(success),
        replies=2,
        steps=1,
        tokens=30,
        sampled=10,
        trained=0 if reason == "env_error" else 10,
    )


def test_a_line_counts_what_was_trained():
    """Masked rollouts are outside reward and success; a group is informative where its other
    rewards differ.
    """
    rows = [row("a", True), row("a", False), row("b", True), row("b", False, "env_error")]
    line = measures.line(
        3,
        2,
        rows,
        [True, False],
        {"actor/grad_norm": 0.5, "x": float("nan"), "y": "text"},
        {"gen": 1.5},
    )
    assert (line["step"], line["iteration"], line["groups"], line["made_share"]) == (3, 2, 2, 0.5)
    assert line["reward_mean"] == line["success_mean"] == pytest.approx(2 / 3)
    assert line["reward_std"] == pytest.approx((1 / 3) ** 0.5)
    assert (line["informative_share"], line["masked_share"]) == (0.5, 0.25)
    assert line["stop_reasons"] == {"done": 3, "env_error": 1}
    assert (line["update_tokens"], line["sampled_tokens"], line["grad_norm"]) == (30, 40, 0.5)
    assert line["verl"] == {"actor/grad_norm": 0.5}
    assert (line["updated"], line["kl"], line["seconds_rollout"], line["other_weights"]) == (
        True,
        None,
        1.5,
        0,
    )


def test_other_weights_are_counted(tmp_path):
    """Rollouts that the engine sampled with other weights than recorded are in the step's line and
    in the iteration's counts.
    """
    rows = [msgspec.structs.replace(row("a", True), other_weights=True), row("a", False)]
    lines = [measures.line(step, 1, rows, [True], {}, {}) for step in (1, 2)]
    (tmp_path / "metrics.jsonl").write_bytes(b"".join(map(jsonl.encode, lines)))
    counts, last = measures.of_iteration(tmp_path / "metrics.jsonl", 1)
    assert last["other_weights"] == 1 and counts == {"episodes": 4, "done": 4, "other_weights": 2}


def test_an_iterations_counts_take_the_last_attempt(tmp_path):
    """A step that was trained twice counts once, with its last numbers; what a killed process left
    of a line counts nothing.
    """
    first = {"step": 1, "iteration": 1, "stop_reasons": {"done": 3, "env_error": 1}}
    lines = [
        first,
        {**first, "stop_reasons": {"done": 4}},
        {**first, "step": 2},
        {**first, "step": 3, "iteration": 2},
    ]
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"".join(map(jsonl.encode, lines)) + b'{"step":4,"itera\n{"step":5')
    counts, last = measures.of_iteration(file, 1)
    assert counts == {"episodes": 8, "done": 7, "env_error": 1}
    assert last == {**first, "step": 2}
    assert measures.of_iteration(tmp_path / "none", 1) == ({"episodes": 0}, {})


def test_progress_is_what_moved(tmp_path):
    """A new phase and a longer episode file move `progress`; the passing of time does not, and it
    never falls.
    """
    files = VerlFiles(tmp_path)
    with HeartbeatWriter(files, 7) as beating:
        seen = []

        def look():
            beating.write()
            beat = read(files.heartbeat, Heartbeat)
            seen.append(beat.progress)
            return beat

        assert (look().phase, read(files.heartbeat, Heartbeat).pid) == ("starting", 7)
        look()
        beating.phase("rollout", 1, 0)
        look()
        files.episodes(1).mkdir(parents=True)
        files.episode_file(1, 1, 42).write_text("a record\n")
        look()
        beating.phase("waiting", 1, 1)
        look()
        beating.phase("rollout", 2, 1)
        beat = look()
    assert (beat.phase, beat.iteration, beat.step) == ("rollout", 2, 1)
    assert seen[0] == seen[1]
    assert all(a < b for a, b in zip(seen[1:], seen[2:], strict=False))


def test_a_child_without_a_job_says_so(tmp_path):
    """It ends with 1, and error.json holds the exit code and the line that the driver repeats."""
    done = subprocess.run(
        [sys.executable, "-m", "coevolve.training.verl.main", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    failure = read(VerlFiles(tmp_path).error, TrainerFailure)
    assert (done.returncode, failure.exit) == (1, 69)
    assert "job.json" in failure.message
    assert failure.message in done.stderr


def test_the_trainers_own_words_stay(make_job, tmp_path, monkeypatch):
    """The trainer's error, which comes home with Ray's traceback, is not written over what the
    trainer wrote down itself.
    """
    files, own_words = (
        VerlFiles(tmp_path),
        TrainerFailure(69, "all 6 rollouts of a step met faults"),
    )
    write(files.job, make_job(tmp_path, "any"))

    def train(job):
        write(files.error, own_words)
        raise Unreachable(
            "ray::TaskRunner.run()\n  File ...\nUnreachable: all 6 rollouts of a step met faults"
        )

    monkeypatch.setattr(main, "_train", train)
    assert main.main(str(tmp_path)) == 1
    assert read(files.error, TrainerFailure) == own_words


def test_what_the_child_sets_itself(make_job, tmp_path):
    """The run directory reaches hydra as one string, whatever is in its name; variables and plugin
    are the preset's.
    """
    job = make_job(tmp_path / 'a "run", of=mine', "any")
    (line,) = [text for text in overrides.fixed_overrides(job) if "custom" in text]
    assert line.endswith(f'coevolve.job="{tmp_path}/a \\"run\\", of=mine/verl/job.json"')
    assert overrides.environment(job)["VERL_PLATFORM"] == "cpu"
    assert f"{overrides.PLUGIN}=verl_cpu.plugin" in overrides.fixed_overrides(job)
    on_gpu = msgspec.structs.replace(job, plugin=None, environment={})
    assert not any(name.startswith("VERL") for name in overrides.environment(on_gpu))
    plugin = f"{overrides.PLUGIN}=coevolve.training.verl.agent_loop"
    assert plugin in overrides.fixed_overrides(on_gpu)


def test_a_plugins_engine(make_job, tmp_path):
    """The last override on the engine counts; the one that a preset with a plugin names is known,
    and no other.
    """
    job = make_job(tmp_path, "any")
    with_vllm = [*job.overrides, "actor_rollout_ref.rollout.name=vllm"]
    assert [overrides.engine(some) for some in (job.overrides, with_vllm)] == [ENGINE, "vllm"]
    assert overrides.known_engines(job) == [*overrides.ENGINES, ENGINE]
    without = msgspec.structs.replace(job, plugin=None)
    assert overrides.known_engines(without) == [*overrides.ENGINES]


@pytest.mark.verl
@pytest.mark.parametrize("address", [None, "127.0.0.1:6379"])
def test_whose_cluster_it_is(make_job, tmp_path, monkeypatch, address):
    """Without RAY_ADDRESS Ray is the child's own, whatever else runs here; with it the child joins,
    and asks for nothing.
    """
    from omegaconf import OmegaConf

    ray = {
        "num_cpus": 8,
        "num_gpus": 1,
        "include_dashboard": False,
        "runtime_env": {"env_vars": {"USER_SET": "1"}},
    }
    custom = {"rollout": {"custom": {"coevolve": {"job": "…"}}}}
    config = OmegaConf.create({"ray_kwargs": {"ray_init": ray}, "actor_rollout_ref": custom})
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    main.add(config, make_job(tmp_path, "any"))
    found = OmegaConf.to_container(config.ray_kwargs.ray_init)
    assert (
        found.pop("runtime_env")["env_vars"].items()
        >= {"USER_SET": "1", "VERL_PLATFORM": "cpu"}.items()
    )
    assert found == (
        {} if address else {**{k: ray[k] for k in found if k != "address"}, "address": "local"}
    )
    assert ("num_cpus" in found) == (address is None)


@pytest.mark.verl
@pytest.mark.parametrize(("versions", "other"), [([7, 7], False), ([7, 8], True), ([6], True)])
def test_the_engine_names_its_weights(versions, other):
    """A rollout whose `step` is not the version of all its replies is marked for the trainer; the
    row keeps the versions.
    """
    from coevolve.records import Rollout
    from coevolve.training.verl import agent_loop
    from coevolve.training.verl.episodes import PlayedEpisode

    rollout = Rollout(
        id="r", task_id="t", env="desk", group="g", sample=0, step=7, policy="p", stop_reason="done"
    )
    about = summary(rollout, "success", 2)
    played = PlayedEpisode(rollout, about, [1, 2], [3, 4], [1, 1], [0.0, 0.0], 0.1, 0.1)
    fields = agent_loop._output(played, versions).extra_fields
    assert fields["coevolve"]["other_weights"] is other
    assert (fields["min_global_steps"], fields["max_global_steps"]) == (
        min(versions),
        max(versions),
    )
