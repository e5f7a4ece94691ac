"""The store of chunks: what comes back is what was written, and whatever else is there is told."""

import gc
import json
import logging
import os
import random
import shutil
import signal
import time
from pathlib import Path

import fsspec
import numpy as np
import pytest
import zarr

from datassay.errors import DataError, SettingError
from datassay.store.chunks import chunks_of
from datassay.store.features import DamagedChunk, Layout, features_manifest
from datassay.store.results import ResultStore
from helpers.damaged_stores import MENDED, REFUSED, attack
from helpers.stores import LAYOUT, RUN, check_all_there, full, opened, values


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    return full(tmp_path_factory.mktemp("made") / "store").location


@pytest.fixture
def store(tmp_path, made_once):
    return opened(shutil.copytree(made_once, tmp_path / "store"))


@pytest.fixture
def in_memory():
    yield "memory://here/store"
    fsspec.filesystem("memory").rm("/here", recursive=True)


def chunk_file(store, array, chunk):
    (result,) = (f for f in store_path(store, array).glob(f"c/{chunk}/**/*") if f.is_file())
    return result


def store_path(store, name):
    return Path(store.location) / name


def test_chunks_cover_each_part_once():
    spans = [(c.number, c.split, c.start, c.stop) for c in chunks_of({"train": 7, "val": 4}, 3)]
    assert spans == [
        (0, "train", 0, 3),
        (1, "train", 3, 6),
        (2, "train", 6, 7),
        (3, "val", 0, 3),
        (4, "val", 3, 4),
    ]


def test_what_was_written_is_read_again(store, in_memory, tmp_path):
    check_all_there(opened(store.location))
    check_all_there(opened(f"file://{store.location}/"))
    full(in_memory)
    check_all_there(opened(in_memory))
    assert features_manifest(tmp_path / "nothing") is None
    store_path(store, "zarr.json").unlink()
    with pytest.raises(SettingError, match=r"which holds .* but no zarr.json"):
        opened(store.location)


def test_it_is_a_zarr_3_group_with_checksums(store):
    group = zarr.open_group(store.location, mode="r")
    assert group.metadata.zarr_format == 3
    rows = group["train_rows"]
    assert rows.chunks == (3, 2, 3) and "Crc32c" in str(rows.metadata.codecs)
    assert np.array_equal(rows[3:6], values(1)["rows"])
    kept = group.attrs["datassay"]
    assert kept["run"]["seed"] == 0 and {"datassay", "zarr", "numpy"} == set(kept["versions"])


def test_zeros_are_told_from_nothing(tmp_path):
    store = opened(tmp_path / "store")
    zeros = {name: np.zeros_like(array) for name, array in values(1).items()}
    store.put(1, zeros)
    assert store.survey().complete == (1,)
    assert store.survey().missing == (0, 2, 3, 4)
    assert np.array_equal(store.get(1, "rows"), zeros["rows"])
    with pytest.raises(DamagedChunk, match="chunk 0: missing in "):
        store.get(0, "rows")


def test_writing_again_changes_nothing(store):
    before = {f: f.read_bytes() for f in store_path(store, "").rglob("*") if f.is_file()}
    again = full(store.location)
    assert {f: f.read_bytes() for f in store_path(again, "").rglob("*") if f.is_file()} == before


def flip(file, index=5):
    content = bytearray(file.read_bytes())
    content[index] ^= 1
    file.write_bytes(content)


DAMAGES = {
    "a flipped byte": lambda f: flip(f("train_outputs", 1)),
    "a flipped byte of the checksum": lambda f: flip(f("train_rows", 1), -1),
    "an empty chunk": lambda f: f("train_rows", 1).write_bytes(b""),
    "a deleted chunk": lambda f: f("train_rows", 1).unlink(),
    "damaged digests": lambda f: flip(f("digests", 1)),
    "another chunk in its place": lambda f: shutil.copy(f("train_rows", 0), f("train_rows", 1)),
    "a chunk and its digests in its place": lambda f: [
        shutil.copy(f(name, 0), f(name, 1)) for name in ("train_rows", "train_outputs", "digests")
    ],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_chunk_is_told_by_number_and_mended(store, damage):
    damage(lambda array, chunk: chunk_file(store, array, chunk))
    result = opened(store.location)
    survey = result.survey()
    assert list(survey.damaged) == [1] and survey.complete == (0, 2, 3, 4)
    assert survey.sentence.startswith("4 of 5 chunks found, 0 missing, 1 damaged; 1: ")
    with pytest.raises(DamagedChunk, match=r"chunk 1: .*Run the same again"):
        for name in LAYOUT.arrays:
            result.get(1, name)
    result.put(1, values(1))
    check_all_there(opened(store.location))


@pytest.mark.parametrize("chunk", [2, 4])
def test_the_last_chunk_of_a_part_is_mended_too(store, chunk):
    """It is shorter than the others, and Zarr must not read what it replaces."""
    part = LAYOUT.chunks[chunk].split
    chunk_file(store, f"{part}_rows", 2 if part == "train" else 1).write_bytes(b"short")
    result = opened(store.location)
    assert list(result.survey().damaged) == [chunk]
    result.put(chunk, values(chunk))
    check_all_there(result)


@pytest.mark.parametrize("files", [["train_rows"], ["train_rows", "train_outputs", "digests"]])
def test_a_chunk_of_another_run_is_told(store, tmp_path, files):
    other = full(tmp_path / "other", seed=1, run=RUN | {"seed": 1})
    for array in files:
        shutil.copy(chunk_file(other, array, 1), chunk_file(store, array, 1))
    assert list(opened(store.location).survey().damaged) == [1]


@pytest.mark.parametrize("array", ["train_rows", "digests"])
@pytest.mark.parametrize("damage", ["delete", "corrupt", "change"])
def test_damaged_metadata_of_an_array_are_told_and_mended(store, array, damage, caplog):
    file = store_path(store, array) / "zarr.json"
    text = file.read_text()
    if damage == "delete":
        file.unlink()
    else:
        file.write_text(text[:40] if damage == "corrupt" else text.replace('"crc32c"', '"gzip"'))
    with caplog.at_level(logging.WARNING):
        result = opened(store.location)
    assert f"the metadata of {array} were missing or damaged" in caplog.text
    assert file.read_text() == text
    check_all_there(result)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-20],
        lambda text: text.replace('"seed": 0', '"seed": 1'),
        lambda text: text.replace('"zarr_format": 3', '"zarr_format": 2'),
        lambda text: "[]",
        lambda text: json.dumps({"attributes": {}, "zarr_format": 3, "node_type": "group"}),
    ],
)
def test_a_damaged_manifest_is_refused(store, change):
    file = store_path(store, "zarr.json")
    file.write_text(change(file.read_text()))
    with pytest.raises(DataError, match=r"whole manifest; .*zarr.json is damaged or not ours"):
        opened(store.location)


def test_a_clock_that_went_back_spoils_no_store(store, monkeypatch):
    for path in store_path(store, "").rglob("*"):
        os.utime(path, (4e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    check_all_there(opened(store.location))
    store.put(1, values(1, seed=1))
    store.put(1, values(1))
    check_all_there(opened(store.location))


def test_what_differs_is_named(store):
    with pytest.raises(SettingError, match=r"differs in: seed \(0 there, 3 here\), weights\. "):
        opened(store.location, {"weights": "b" * 64, "seed": 3})
    smaller = Layout({"train": 7, "val": 4}, LAYOUT.arrays, chunk=2)
    with pytest.raises(SettingError, match=r"differs in: chunk \(3 there, 2 here\)\. "):
        opened(store.location, layout=smaller)


def test_what_a_killed_first_write_left_is_no_ones(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    (path / f".zarr.json.{'1a' * 16}.part").write_text("{")
    store = full(path)
    chunk = path / "train_rows" / "c" / "1" / "0"
    ours = [path / f".zarr.json.{'2a' * 16}.part", chunk / f"0.{'3a' * 16}.partial"]
    theirs = [path / "thesis.partial", path / "notes.part", chunk / "mine.partial"]
    for file in ours + theirs:
        file.write_text("x")
    check_all_there(opened(store.location))
    assert all(file.exists() for file in ours)  # the first store is still in use
    del store
    gc.collect()
    check_all_there(opened(path))
    assert not any(file.exists() for file in ours) and all(file.exists() for file in theirs)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://bucket/store", r"a URL that fsspec opens; got nosuch://bucket/store"),
        ("/proc/nothing/store", "must be writable; /proc/nothing/store is not"),
    ],
)
def test_a_place_that_cannot_be_is_refused(url, message):
    with pytest.raises((SettingError, DataError), match=message):
        opened(url)


def test_a_full_disk_names_the_chunk_and_loses_nothing(tmp_path, monkeypatch):
    store = opened(tmp_path / "store")
    store.put(0, values(0))

    def no_room(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("zarr.storage._local._put", no_room)
        with pytest.raises(
            DataError, match=r"take chunk 1; .* does not: .*No space left.*Make room"
        ):
            store.put(1, values(1))
    assert opened(tmp_path / "store").survey().complete == (0,)
    check_all_there(full(tmp_path / "store"))


def test_results_share_the_manifest_and_its_refusals(tmp_path):
    ResultStore(tmp_path / "s", {"lr": 0.1}).put("one", {"a": np.arange(3)})
    assert list(ResultStore(f"file://{tmp_path}/s/", {"lr": 0.1}).get("one")["a"]) == [0, 1, 2]
    with pytest.raises(SettingError, match=r"differs in: lr \(0\.1 there, 0\.2 here\)\. "):
        ResultStore(tmp_path / "s", {"lr": 0.2})
    (tmp_path / "s" / "run.json").write_text('{"lr": 0.')
    with pytest.raises(DataError, match=r"whole manifest; .*run\.json is damaged or not ours"):
        ResultStore(tmp_path / "s", {"lr": 0.1})
    with pytest.raises(SettingError, match=r"must be a folder; .*one\.npz is a file"):
        ResultStore(tmp_path / "s" / "one.npz", {})
    with pytest.raises(SettingError, match=r"a folder on this machine; got memory://s"):
        ResultStore("memory://s", {})


@pytest.mark.parametrize(("seed", "count"), [(0, 25), pytest.param(1, 250, marks=pytest.mark.slow)])
def test_no_damage_goes_unnoticed(tmp_path, seed, count):
    result = attack(tmp_path, count, seed)
    assert not result.failures
    assert result.counts[MENDED] > count / 5 and result.counts[REFUSED] > count / 25


@pytest.mark.parametrize("kill", [False, True], ids=["first runs", "one killed"])
def test_first_runs_at_once_give_the_right_bits_or_one_line(tmp_path, kill):
    draw = random.Random(0)
    for number in range(3):
        place, children = tmp_path / str(number), []
        for _ in range(3):
            if not (child := os.fork()):
                code = 1
                try:
                    check_all_there(full(place / "features"))
                    ResultStore(place / "results", RUN).put("one", {"a": np.arange(3)})
                    code = 0
                except (DataError, SettingError):  # another was first
                    code = 2
                finally:
                    os._exit(code)
            children.append(child)
        if kill:
            time.sleep(draw.uniform(0, 0.1))
            os.kill(children[0], draw.choice([signal.SIGTERM, signal.SIGKILL]))
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert set(codes[kill:]) <= {0, 2} and 0 in codes[kill:], codes
        check_all_there(full(place / "features"))  # removes what an ended one left
        assert list(ResultStore(place / "results", RUN).get("one")["a"]) == [0, 1, 2]
        assert not [f for f in place.rglob("*") if f.suffix in {".part", ".partial"}]
