"""What the parser makes of the corpus of replies, by class, beside another checkout's parser.

    python tests/benchmarks/replies.py [CHECKOUT]

Per class: the replies, those of which the calls run, that get a hint, and that hand the turn back,
and the replies in which the two parsers differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]
ASK = "import json, reply_corpus as c; print(json.dumps([c.outcome(row) for row in c.rows()]))"
KINDS = ("runs", "hint", "text", "other calls")


def outcomes(checkout: Path) -> list[str]:
    paths = os.pathsep.join(map(str, (checkout, TESTS)))
    answer = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=checkout,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(answer.stdout)


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from reply_corpus import rows

    checkouts = [*map(Path, sys.argv[1:2]), TESTS.parent]
    found = [outcomes(checkout) for checkout in checkouts]
    corpus = rows()
    print(
        f"{'class':28}{'replies':>8}", *(f"{kind:>12}" for _ in found for kind in KINDS), "  moved"
    )
    for why in [*dict.fromkeys(row["why"] for row in corpus), "all"]:
        places = [i for i, row in enumerate(corpus) if why in (row["why"], "all")]
        counts = [Counter(parser[i] for i in places) for parser in found]
        moved = Counter(
            " to ".join(p[i] for p in found) for i in places if found[0][i] != found[-1][i]
        )
        told = ", ".join(f"{count} {move}" for move, count in moved.items())
        figures = (f"{count[kind]:12}" for count in counts for kind in KINDS)
        print(f"{why:28}{len(places):8}", *figures, f"  {told}")


if __name__ == "__main__":
    main()
