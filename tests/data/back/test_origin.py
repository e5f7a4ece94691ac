"""A digest of what was read."""

import hashlib
import os

import pytest

from datassay.data.back.origin import source_digest
from datassay.errors import DataError


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "photos"
    for name in ("dog/2.png", "cat/1.png", "cat/deep/3.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_a_file_is_its_bytes(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y\r\n1,2\r\n")
    assert source_digest(path) == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_folder_is_the_same_wherever_it_lies(folder, tmp_path):
    before = source_digest(folder)
    moved = folder.rename(tmp_path / "elsewhere")
    (moved / ".hidden").write_text("no data")
    (moved / ".cache").mkdir()
    (moved / ".cache" / "file").write_text("no data")
    assert source_digest(moved) == before


@pytest.mark.parametrize("change", ["bytes", "name", "class", "gone", "new"])
def test_every_change_of_a_folder_tells(folder, change):
    before, file = source_digest(folder), folder / "cat/1.png"
    if change == "bytes":
        file.write_text("other")
    elif change == "name":
        file.rename(folder / "cat/4.png")
    elif change == "class":
        file.rename(folder / "dog/1.png")
    elif change == "gone":
        file.unlink()
    else:
        (folder / "cat/0.png").write_text("")
    assert source_digest(folder) != before


def test_linked_folders_are_read_once(folder):
    before = source_digest(folder)
    (folder / "cat" / "up").symlink_to(folder, target_is_directory=True)
    assert source_digest(folder) == before
    other = folder.parent / "linked"
    other.mkdir()
    for name in ("cat", "dog"):
        (other / name).symlink_to(folder / name, target_is_directory=True)
    os.unlink(folder / "cat" / "up")
    assert source_digest(other) == before


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="must be a file"):
        source_digest(tmp_path)
