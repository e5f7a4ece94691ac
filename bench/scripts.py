"""What is no truth with contenders, run as a whole: speed, memory, exactness, pages, ..."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Name → arguments; {work} is a folder of its own. Suites of large networks and of human labels keep
# their work there.
SCRIPTS: dict[str, tuple[str, ...]] = {
    "exactness.py": (),
    "truth.py": (),
    "retraining.py": (),
    "speed.py": (),
    "groups.py": (),
    "averaged.py": (),
    "memory.py": (),
    "footprint.py": (),
    "plan.py": (),
    "neighbors.py": (),
    "divide.py": (),
    "polynomial.py": (),
    "learning_curves.py": ("--store", "{work}"),
    "lab.py": (),
    "tables.py": (),
    "acts.py": ("--cells", "{work}/cells.jsonl"),
    "review_order.py": ("--work", "{work}"),
    "real_noise.py": ("--work", "{work}"),
    "trust.py": ("--store", "{work}"),
    "attribution.py": ("--work", "{work}"),
    "attribution_optimizer.py": ("--work", "{work}"),
    "attribution_speed.py": ("--work", "{work}"),
    "inserted_texts.py": ("--work", "{work}"),
    "index.py": ("--work", "{work}"),
    "throughput.py": ("cnn", "mlp"),
    "scale.py": (),
}


def run_scripts(work: Path) -> None:
    """One after the other; what has ended well is not run again."""
    done = work / "scripts.txt"
    ended = set(done.read_text("utf-8").split()) if done.exists() else set()
    for name, arguments in SCRIPTS.items():
        if name in ended:
            continue
        # The attribution scripts share their truths.
        folder = work / (
            "attribution" if name.startswith("attribution") else name.partition(".")[0]
        )
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, name, *(a.format(work=folder) for a in arguments)]
        print(" ".join(command[1:]), flush=True)
        if subprocess.run(command, cwd=HERE).returncode == 0:
            with done.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")
        else:
            print(f"{name} failed; the same command runs it again", flush=True)
