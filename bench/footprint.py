"""What the base install adds to torch on disk, and what `import datassay` costs.

Two fresh virtual environments, one with torch alone and one with this package, both from the
constraints file; the size is that of site-packages.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from record import record

ROOT = Path(__file__).parent.parent
CHECK = (
    "import sys, time; t = time.perf_counter(); import datassay; t = time.perf_counter() - t; "
    "assert not {'torch', 'plotly'} & set(sys.modules); print(t)"
)


def environment(folder: Path, *packages: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", *packages]
    subprocess.run(install, check=True)
    return python


def site_megabytes(folder: Path) -> float:
    files = folder.rglob("site-packages/**/*")
    return sum(f.stat().st_blocks * 512 for f in files if f.is_file()) / 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        alone, ours = Path(temporary) / "torch", Path(temporary) / "datassay"
        environment(alone, "torch")
        python = environment(ours, str(ROOT))
        runs = [
            float(subprocess.run([python, "-c", CHECK], capture_output=True, check=True).stdout)
            for _ in range(5)
        ]
        record(
            "footprint/base install",
            torch_megabytes=site_megabytes(alone),
            added_megabytes=site_megabytes(ours) - site_megabytes(alone),
            import_seconds=min(runs),
        )


if __name__ == "__main__":
    main()
