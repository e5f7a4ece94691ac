"""Free memory is that of the container, by made-up files of the system."""

import subprocess
import sys

import pytest

from datassay.machine import available_memory

GB = 2**30
MOUNTS = {
    "cgroup2": "31 23 0:26 {root} /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate",
    "cgroup": "35 31 0:32 {root} /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory",
}
PATHS = {"cgroup2": "0::{path}", "cgroup": "9:cpu:/\n4:hugetlb,memory:{path}\n0::/"}
NAMES = {
    "cgroup2": ("memory.max", "memory.current", "inactive_file {}\nactive_file {}\nanon 7"),
    "cgroup": (
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "cache 1\ninactive_file 5\ntotal_inactive_file {}\ntotal_active_file {}",
    ),
}
NO_LIMIT = {"cgroup2": "max", "cgroup": str(2**63 - 4096)}


def make_system(folder, kind, path, limits, root="/"):
    """Write /proc and /sys of a process; limits: cgroup → limit, use, file pages."""
    process = folder / "proc" / "self"
    process.mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {16 * GB // 1024} kB\n")
    (process / "cgroup").write_text(PATHS[kind].format(path=path))
    (process / "mountinfo").write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n" + MOUNTS[kind].format(root=root)
    )
    top = folder / MOUNTS[kind].split()[4].lstrip("/")
    for place, (limit, used, cached) in limits.items():
        (top / place).mkdir(parents=True, exist_ok=True)
        contents = (limit, used, NAMES[kind][2].format(cached, cached))
        for name, content in zip((*NAMES[kind][:2], "memory.stat"), contents, strict=True):
            (top / place / name).write_text(f"{content}\n")
    return folder


@pytest.mark.parametrize("kind", MOUNTS)
def test_what_the_limit_leaves_is_free(kind, tmp_path):
    system = make_system(tmp_path / "a", kind, "/job", {"job": (4 * GB, 3 * GB, GB // 2)})
    assert available_memory(system) == 2 * GB  # file pages, old and young, are given back
    system = make_system(tmp_path / "b", kind, "/job", {"job": (GB, 2 * GB, 0)})
    assert available_memory(system) == 0


@pytest.mark.parametrize("kind", MOUNTS)
def test_the_narrowest_of_nested_groups_counts(kind, tmp_path):
    limits = {"": (NO_LIMIT[kind], 9 * GB, 0), "a": (3 * GB, 2 * GB, 0), "a/b": (8 * GB, GB, 0)}
    assert available_memory(make_system(tmp_path / "a", kind, "/a/b", limits)) == GB
    limits |= {"a": (NO_LIMIT[kind], 2 * GB, 0)}
    assert available_memory(make_system(tmp_path / "b", kind, "/a/b", limits)) == 7 * GB
    limits |= {"a/b": (NO_LIMIT[kind], GB, 0)}
    assert available_memory(make_system(tmp_path / "c", kind, "/a/b", limits)) == 16 * GB


@pytest.mark.parametrize("kind", MOUNTS)
@pytest.mark.parametrize(
    ("path", "root"), [("/docker/1", "/docker/1"), ("/elsewhere", "/docker/1")]
)
def test_a_container_sees_its_own_part(kind, path, root, tmp_path):
    system = make_system(tmp_path, kind, path, {"": (2 * GB, GB, 0)}, root)
    assert available_memory(system) == GB


def test_files_that_are_missing_limit_nothing(tmp_path):
    system = make_system(tmp_path / "a", "cgroup2", "/gone", {})
    assert available_memory(system) == 16 * GB
    assert 0 < available_memory(tmp_path / "nothing") < 2**50  # half of what the machine has
    assert 0 < available_memory() < 2**50


# What Windows has not, before datassay is imported.
WITHOUT = """
import os, sys
for name in ("sysconf", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "geteuid", "posix_fallocate"):
    delattr(os, name)
sys.modules["fcntl"] = sys.modules["resource"] = None
from datassay.__main__ import main
main()
"""


@pytest.mark.slow
def test_commands_run_where_a_system_has_less(tmp_path):
    for line in (
        "example people --out p",
        "score p/people.csv --target income --ids person --model linear --out r",
        "apply p/people.csv r --accept-suggested 0.9 --out c",
    ):
        command = [sys.executable, "-c", WITHOUT, *line.split()]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "c" / "changelog.csv").is_file()
