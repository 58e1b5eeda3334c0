"""verl's trainer on a machine without a GPU: what the tests run instead of CUDA and vLLM.

cpu.toml is a preset (`--preset tests/verl_cpu/cpu.toml`) with a plugin, and so an example of one: a
platform by verl's extension point, and a rollout engine over plain Hugging Face generation. It is
here and not in the package because it is no way to train: on a laptop the local backend does the
same update in a fraction of the time.
"""

from pathlib import Path

PRESET = str(Path(__file__).with_name("cpu.toml"))
