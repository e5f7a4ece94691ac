"""A wheel of this repository, installed where there is nothing but what it says it needs."""

import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def build(folder):
    """Make the source distribution, and from it the wheel; return both paths."""
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def needed(name, found):
    """Gather what a distribution needs without its extras, and what that needs."""
    if name not in found:
        found[name] = distribution(name)
        for line in found[name].requires or ():
            requirement = Requirement(line)
            extras = ({"extra": extra} for extra in ("", *requirement.extras))
            if requirement.marker is None or any(map(requirement.marker.evaluate, extras)):
                needed(requirement.name, found)
    return found


def install(wheel, folder):
    """Return the program `datassay` of a new environment: the wheel, and links to what it needs.

    Nothing is fetched: what the wheel needs is linked from the environment of the tests.
    """
    venv.create(folder)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-index", wheel], check=True)
    scheme = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", scheme))
    for name, content in needed("datassay", {}).items():
        for top in {file.parts[0] for file in content.files or ()} - {".."}:
            link = site / top
            if name != "datassay" and not link.exists():
                link.symlink_to(content.locate_file(top))
    return folder / "bin" / "datassay"
