"""What is released: both distributions, and the image where Docker runs."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from helpers.installed import ROOT, build

# Both are made once, in make slow; README's commands are typed with them by test_docs.py.


@pytest.mark.slow
def test_the_distributions_hold_what_they_must_and_pass_twine(tmp_path):
    sdist, wheel = build(tmp_path)
    twine = [sys.executable, "-m", "twine", "check", "--strict", sdist, wheel]
    ended = subprocess.run(twine, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    with zipfile.ZipFile(wheel) as file:
        names = {name.partition("/")[2] for name in file.namelist() if name[:9] == "datassay/"}
    source = ROOT / "src" / "datassay"
    files = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    assert names == {name for name in files if "__pycache__" not in name}
    with tarfile.open(sdist) as file:
        tops = {name.split("/")[1] for name in file.getnames()}
    assert {"src", "tests", "README.md", "LICENSE", "pyproject.toml", "hatch_build.py"} <= tops


def test_links_of_a_release_lead_to_files_of_its_tag():
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hook = module_from_spec(spec)
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    spec.loader.exec_module(hook)
    text = (ROOT / "README.md").read_text("utf-8")
    linked = hook.with_absolute_links(text, "https://example.org/d", "v1.0")
    links = re.findall(r"\]\(([^)]+)\)", linked)
    form = r"https://example\.org/d/(?:blob|raw)/v1\.0/(.+)"
    files = [match[1] for link in links if (match := re.fullmatch(form, link))]
    assert len(files) == len(links) > 10
    assert not [file for file in files if not (ROOT / file.partition("#")[0]).exists()]


def has_docker():
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not has_docker(), reason="Docker does not run here")
def test_the_image_runs_a_users_file(tmp_path):
    subprocess.run(["docker", "build", "--quiet", "--tag", "datassay-test", ROOT], check=True)
    rows = "".join(f"{i % 7},{i % 5},{'yes' if i % 7 > 3 else 'no'}\n" for i in range(120))
    (tmp_path / "own.csv").write_text("a,b,answer\n" + rows)
    command = ["docker", "run", "--rm", "--volume", f"{tmp_path}:/data", "datassay-test"]
    subprocess.run([*command, "score", "own.csv", "--target", "answer"], check=True)
    assert (tmp_path / "scores" / "index.html").is_file()
