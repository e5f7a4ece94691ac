"""Whatever a killed command left: readers see one of two results, whole, and the same ends well."""

import shutil

import numpy as np
import pytest
import torch
from torch import nn

from datassay.commands.finished import SCORES, SUMMARY, check_run
from datassay.store.atomic import PREFIX
from datassay.store.outputs import write_pages
from helpers.command_line import contents, invoke, succeed
from helpers.states import states

TABLE = "t.csv --target y --ids key"
NETWORK = "--model net.py:network --weights w.pt"
INDEX, EXPLAIN = f"index {TABLE} {NETWORK}", f"explain {TABLE} {NETWORK} --queries more.csv"
EXPORT = "export out --to datalab --out theirs"
# Writer → what comes first, what is killed, and who reads what it writes.
WRITERS = {
    "score": (
        [f"score {TABLE} --model linear --seed 1"], f"score {TABLE} --model linear",
        [EXPORT, "apply t.csv out --accept-suggested 0.5 --out theirs/data"],
    ),
    "run": (
        [f"run {TABLE} --model linear --budget 1 --seed 1"],
        f"run {TABLE} --model linear --budget 1", [EXPORT],
    ),
    "apply": (
        [f"score {TABLE} --model linear --out scored",
         "apply t.csv scored --accept-suggested 0.99"],
        "apply t.csv scored --accept-suggested 0.5",
        ["score out --target y --ids key --model linear --out theirs"],
    ),
    "index": ([], INDEX, []),
    "append": ([INDEX], f"{INDEX} --append more.csv", [f"{EXPLAIN} --index out --out theirs"]),
    "partition": (
        [f"partition {TABLE} --blocks 2 --seed 1"], f"partition {TABLE} --blocks 2",
        ["predict more.csv out --ids key --out theirs"],
    ),
    "weigh": ([f"weigh {TABLE} --seeds 0 --neighbors 5"], f"weigh {TABLE} --seeds 0", []),
    "lab": (["lab augmented-gradient --seed 1"], "lab augmented-gradient", []),
    "store": ([], f"score {TABLE} --model linear --store store", []),
}  # fmt: skip
# Of the states, those after which the same command runs again.
EACH = 4


def files_of(folder):
    return {
        n: c for n, c in contents(folder).items() if n.split("/")[0] not in {"theirs", "beside"}
    }


def call(line):
    return invoke(*line.split(), *([] if "--out" in line else ["--out", "out"]))


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A current folder with a table, more rows of it, and a network."""
    draw = np.random.default_rng(0)
    y = np.arange(60) % 2
    x = draw.normal(size=(60, 3)) + 3 * y[:, None]
    y[5] = 1 - y[5]
    folder = tmp_path / "work"
    folder.mkdir()
    for name, first, n in (("t.csv", "k", 60), ("more.csv", "m", 20)):
        rows = [f"{first}{i},{','.join(map('{:.3f}'.format, x[i]))},{'no' if y[i] else 'yes'}"
                for i in range(n)]  # fmt: skip
        (folder / name).write_text("\n".join(["key,a,b,c,y", *rows, ""]))
    (folder / "net.py").write_text("from torch import nn\ndef network(): return nn.Linear(3, 2)\n")
    torch.save(nn.Linear(3, 2).state_dict(), folder / "w.pt")
    monkeypatch.chdir(folder)
    return folder


def is_table(name):
    """Not a page or a summary, which say seconds and times of day."""
    return not name.endswith((".html", ".json"))


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_a_command_killed_between_two_system_calls(work, tmp_path, monkeypatch, writer):
    first, line, readers = WRITERS[writer]
    for earlier in first:
        assert call(earlier).exit_code == 0
    before = files_of(work)
    with states(work, tmp_path / "states") as copies:
        assert call(line).exit_code == 0
    after = files_of(work)
    assert len(copies) > 10
    for number, copy in enumerate(copies):
        monkeypatch.chdir(copy)
        results = [call(reader) for reader in readers]
        assert not any(r.exit_code for r in results), (copy.name, [r.output for r in results])
        succeed("example", "digits", "--out", "beside")
        if readers and writer != "append":
            found = {n: c for n, c in files_of("out").items() if not n.startswith(PREFIX)}
            assert found in (files_of(work / "out"), keys_below(before, "out/")), copy.name
        if number % EACH and copy != copies[-1]:
            continue
        again = call(line)
        if writer == "append" and copy == copies[-1]:
            assert "the index has 'm0'" in again.output  # all was done
        else:
            assert again.exit_code == 0, (copy.name, again.output)
        ended = {name: content for name, content in files_of(".").items() if ".part" not in name}
        assert ended.keys() == after.keys(), copy.name
        assert not [n for n in ended if is_table(n) and ended[n] != after[n]], copy.name
        shutil.rmtree(copy / "beside")


def keys_below(files, start):
    return {name.removeprefix(start): c for name, c in files.items() if name.startswith(start)}


def test_results_that_a_killed_run_had_moved_aside_are_there_for_who_reads_them(tmp_path):
    names = [SCORES, SUMMARY, "index.html"]
    out = tmp_path / "work" / "out"
    write_pages(dict.fromkeys(names, "one"), out)
    with states(tmp_path / "work", tmp_path / "states") as copies:
        write_pages(dict.fromkeys(names, "two"), out)
    moved = [copy for copy in copies if not (copy / "out" / SCORES).exists()]
    assert moved
    for copy in copies:
        check_run(copy / "out", SUMMARY)
        found = {(copy / "out" / name).read_text() for name in names}
        assert found in ({"one"}, {"two"}), copy.name
