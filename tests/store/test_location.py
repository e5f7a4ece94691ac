"""Where a store may be, what of it is shown, and what in it is not followed."""

import json
import logging
import os

import fsspec
import numpy as np
import pytest

from datassay.collect.collection import collect
from datassay.errors import DataError, DatassayError, SettingError
from datassay.store import manifest
from datassay.store.location import check_place, normal, redact, shown_error
from datassay.store.results import ResultStore
from helpers.collecting import classes, network
from helpers.command_line import invoke
from helpers.stores import check_all_there, full, opened

SECRET = "s3cr3t/Key+x@y"
URLS = {
    f"s3://AKIAXX:{SECRET}@bucket/kept": "s3://***@bucket/kept",
    "https://user:s3cr3tpw@host/kept?sig=s3cr3tsig&sv=2": "https://***@host/kept?***",
    "abfs://kept@account.dfs/x?sp=r&sig=s3cr3t%2F%3D": "abfs://***@account.dfs/x?***",
    "gcs://bucket/x#s3cr3tpart": "gcs://bucket/x#***",
    "simplecache::ftp://u:s3cr3t'quote@host/a": "simplecache::ftp://***@host/a",
    "/home/a@b/kept?1": "/home/a@b/kept?1",
    "s3://bucket/kept": "s3://bucket/kept",
}


@pytest.mark.parametrize(("url", "expected"), URLS.items(), ids=URLS.values())
def test_credentials_are_not_shown(url, expected):
    assert redact(url) == expected
    error = OSError(f"no access to {url}: key {SECRET}, s3cr3t/=, s3cr3tsig failed\nat line 2")
    assert "\n" not in shown_error(error, url)
    if "***" in expected:
        assert expected in shown_error(error, url) and url not in shown_error(error, url)
    if SECRET in url:
        assert "s3cr3t/" not in shown_error(error, url).replace("s3cr3t/=", "")


def test_a_command_line_is_shown_without_them():
    line = "datassay score digits --store 'https://u:pw@h/k?sig=abc' --out a@b"
    assert redact(line) == "datassay score digits --store 'https://***@h/k?***' --out a@b"


def test_errors_and_logs_hide_them(caplog):
    train = classes(17)
    url = "memory://user:s3cr3t@place/kept?token=s3cr3t"
    with caplog.at_level(logging.DEBUG, "datassay"):
        collect(network(), train, store=url)
        with pytest.raises(SettingError) as refused:
            collect(network(seed=1), train, store=url)
    assert "s3cr3t" not in str(refused.value) + caplog.text and "***" in caplog.text
    fsspec.filesystem("memory").store.clear()
    for bad in ("nosuch://u:s3cr3t@h/kept", "https://u:s3cr3t@127.0.0.1:9/kept?sig=s3cr3t"):
        with pytest.raises(DatassayError) as refused:
            collect(network(), train, store=bad)
        assert "s3cr3t" not in str(refused.value) and "\n" not in str(refused.value)
        assert refused.value.__cause__ is None and refused.value.__suppress_context__


@pytest.mark.parametrize("position", ["", " ", "/", "//", "file://", "file:///", "s3://", "a\0b"])
def test_what_names_no_folder_is_refused(position, tmp_path):
    with pytest.raises(SettingError, match="store must name a folder; got "):
        normal(position)
    with pytest.raises(SettingError, match="store must name a folder; got "):
        ResultStore(position, {})
    if "\0" not in position:
        for command in (["score", "iris"], ["complexity", "--inputs", "5", "--width", "5"]):
            done = invoke(*command, "--store", position, "--out", tmp_path / "out")
            assert done.exit_code == 2 and "must name a folder" in done.stderr, done.stderr


def test_a_home_folder():
    with pytest.raises(SettingError, match=r"there is no user '~nobody-here'"):
        normal("~nobody-here/kept")
    assert normal("~/kept") == os.path.expanduser("~/kept")


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for position, what in (("thesis", "holds chapter.tex"), ("file", "is a file")):
        with pytest.raises(SettingError, match=what):
            check_place(tmp_path / position)
        done = invoke("score", "iris", "--store", tmp_path / position, "--out", tmp_path / "out")
        assert done.exit_code == 2 and what in done.stderr
    assert [f.name for f in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]
    check_place(tmp_path / "new")
    check_place("memory://new/place")


def planted(tmp_path):
    target = tmp_path / "precious.txt"
    target.write_text("mine")
    return target


def test_planted_links_are_not_followed(tmp_path):
    target, stored = planted(tmp_path), tmp_path / "kept"
    stored.mkdir()
    for name in (".run.json.part", f".one.{os.getpid()}.part", "one.npz"):
        (stored / name).symlink_to(target)
    with pytest.raises(SettingError, match=r"holds .* but no run.json"):
        ResultStore(stored, {})  # not ours: refused as any folder of somebody else
    for link in list(stored.iterdir()):
        link.unlink()
    store = ResultStore(stored, {})
    (stored / "one.npz").symlink_to(target)
    with pytest.raises(DataError, match=r"one\.npz is a link\. Remove it"):
        "one" in store  # noqa: B015
    store.put("one", {"a": np.arange(3)})
    assert not (stored / "one.npz").is_symlink() and target.read_text() == "mine"
    (stored / "run.json").rename(tmp_path / "elsewhere.json")
    (stored / "run.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(DataError, match=r"run\.json is a link"):
        ResultStore(stored, {})


@pytest.mark.parametrize(
    "name", ["train_rows", "train_rows/c/1", "train_rows/c/1/0/0/0", "digests"]
)
def test_links_in_features_are_refused(tmp_path, name):
    full(tmp_path / "store")
    path, target = tmp_path / "store" / name, tmp_path / "elsewhere"
    if not path.exists():
        path = next(f for f in (tmp_path / "store" / "train_rows").rglob("c/1/**/*") if f.is_file())
    path.rename(target)
    path.symlink_to(target)
    with pytest.raises(DataError, match=r"is a link\. Remove it"):
        opened(tmp_path / "store")
    path.unlink()
    target.rename(path)
    check_all_there(opened(tmp_path / "store"))


def test_a_pipe_does_not_hang(tmp_path):
    ResultStore(tmp_path, {}).put("one", {"a": np.arange(3)})
    for name in ("one.npz", "run.json"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match=r"is no plain file\. Remove it"):
            "one" in ResultStore(tmp_path, {})  # noqa: B015
        (tmp_path / name).unlink()
        ResultStore(tmp_path / "other", {})
        (tmp_path / "other" / "run.json").rename(tmp_path / "run.json")
        (tmp_path / "other").rmdir()


def test_the_folder_of_a_run_may_not_be_a_link(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kept" / "features").symlink_to(tmp_path / "elsewhere")
    done = invoke("score", "iris", "--store", tmp_path / "kept", "--out", tmp_path / "out")
    assert done.exit_code == 2 and "features is a link" in done.stderr
    assert not list((tmp_path / "elsewhere").iterdir())


MANIFESTS = {
    "another type": "[]", "a number": "7", "null": "null", "deep": "[" * 100_000,
    "deep objects": '{"run":' * 100_000, "NaN": '{"run": NaN, "digest": NaN}',
    "a long number": '{"run": ' + "9" * 10_000 + "}", "no UTF-8": b'{"run": "\xff\xfe"}',
    "another encoding": '{"run": {}}'.encode("utf-32"), "empty": "",
    "doubled keys": '{"run": {}, "run": {}, "digest": "a"}',
    "run of another type": json.dumps({"run": 3, "digest": "b"}),
    "digest of another type": json.dumps({"run": {}, "digest": [1]}),
}  # fmt: skip


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_strange_manifests_are_one_line(tmp_path, text):
    ResultStore(tmp_path / "results", {})
    full(tmp_path / "features")
    content = text.encode() if isinstance(text, str) else text
    (tmp_path / "results" / "run.json").write_bytes(content)
    (tmp_path / "features" / "zarr.json").write_bytes(content)
    for opening in (
        lambda: ResultStore(tmp_path / "results", {}),
        lambda: opened(tmp_path / "features"),
    ):
        with pytest.raises(DataError, match="must hold a whole manifest") as refused:
            opening()
        assert "\n" not in str(refused.value)


def test_a_huge_manifest_is_not_read(tmp_path):
    ResultStore(tmp_path, {})
    with (tmp_path / "run.json").open("r+b") as file:
        file.truncate(2**34)
    with pytest.raises(DataError, match=r"run\.json has 17,179,869,184 bytes, more than"):
        ResultStore(tmp_path, {})


def test_a_store_that_vanishes_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "write_new", lambda *_, **__: None)
    with pytest.raises(DataError, match="was removed as this run began"):
        manifest.claim(tmp_path / "kept", {}, "run.json", dict, bytes)
