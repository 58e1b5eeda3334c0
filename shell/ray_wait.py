"""python ray_wait.py ADDRESS NODES GPUS SECONDS: waits until the Ray cluster has so many nodes and
GPUs; exit 1 if it never has."""

import sys
import time


def main(address: str, nodes: int, gpus: int, seconds: float) -> int:
    import ray

    deadline, found = time.monotonic() + seconds, "no cluster"
    while time.monotonic() < deadline:
        try:
            if not ray.is_initialized():
                ray.init(address, log_to_driver=False, logging_level="ERROR")
            here = (
                sum(node["Alive"] for node in ray.nodes()),
                int(ray.cluster_resources().get("GPU", 0)),
            )
            if here[0] >= nodes and here[1] >= gpus:
                print(f"Ray is up: {here[0]} nodes, {here[1]} GPUs", file=sys.stderr)
                return 0
            found = f"{here[0]} of {nodes} nodes, {here[1]} of {gpus} GPUs"
        except (ConnectionError, RuntimeError, TimeoutError) as error:
            found = str(error).splitlines()[0]
        time.sleep(1)
    print(f"Ray is not up after {seconds:g} s: {found}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    address, *numbers = sys.argv[1:]
    sys.exit(main(address, *map(int, numbers)))
