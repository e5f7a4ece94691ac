"""What the base install adds to torch on disk, and what `import datassay` costs.

Two fresh virtual environments, one with torch alone and one with this package, both from the
constraints file; the size is that of site-packages.
"""

import subprocess
import sys
from pathlib import Path

from bench.frame import HERE, Case, Options, Row, Task

CHECK = (
    "import sys, time; t = time.perf_counter(); import datassay; t = time.perf_counter() - t; "
    "assert not {'torch', 'plotly'} & set(sys.modules); print(t)"
)


def environment(folder: Path, package: str) -> tuple[Path, float]:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python, constraints = folder / "bin" / "python", HERE.parent / "constraints.txt"
    install = [python, "-m", "pip", "install", "-q", "-c", constraints, package]
    subprocess.run(install, check=True)
    files = (f for f in folder.rglob("site-packages/**/*") if f.is_file())
    return python, sum(f.stat().st_blocks * 512 for f in files) / 1e6


def base_install(options: Options) -> dict[str, float]:
    _, alone = environment(options.work / "torch", "torch")
    python, ours = environment(options.work / "datassay", str(HERE.parent))
    runs = [
        float(subprocess.run([python, "-c", CHECK], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    return {"torch_megabytes": alone, "added_megabytes": ours - alone, "import_seconds": min(runs)}


def rows(lines: dict[str, dict]) -> Row:
    base = lines["footprint/base install"]
    message = f"{base['added_megabytes']:.0f} MB; {base['import_seconds']:.2f} s"
    return Row("What the base install adds to torch; `import datassay`", message)


TASK = Task(
    measure="what the base install adds to torch",
    cases={"base install": Case(base_install)},
    lines="footprint/",
    rows=rows,
)
