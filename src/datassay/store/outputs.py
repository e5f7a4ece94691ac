"""A run's files: all of them written, or the earlier ones left as they were."""

import filecmp
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from datassay.errors import SettingError
from datassay.store.atomic import NEW, staging
from datassay.store.folders import heal, place, read_digests, refuse_foreign

Part = pa.Table | str | Callable[[Path], object]  # a table, a text, or what writes a file

SUMMARY = "summary.json"
ROOM = 8_000_000  # bytes: a page, which holds plotly, and small tables


def write_pages(
    parts: Mapping[str, Part],
    out: Path,
    *,
    overwrite: bool = False,
    is_checked: bool = False,
    job: Iterable[str] = (),
) -> Path:
    """Write tables, texts and other files, all of them or none.

    Every file is completed in a temporary folder on the same disk, then moved into place. Where
    one cannot be moved, those that stood there before are put back. `.datassay.json` beside the
    files lists their digests: only what it lists, and is unchanged since, is replaced. A file that
    would be as it was written last stays, edited since or not.

    Args:
        parts: file name → a table, written as Parquet, a text, or what writes the file to a path.
        out: the folder; made where it does not exist. Other files in it stay.
        overwrite: whether files that we did not write may be replaced, too.
        is_checked: whether `check_writable` had no objection before the work: what is in the way
            since then must not cost the results.
        job: names of all files that the job can write: one of an earlier run that is not among
            `parts` now would not belong to them, and goes unless it was changed since.

    Returns:
        The path of the page.

    Raises:
        SettingError: the folder cannot be written, the disk is full, or a file in the way is not
            ours. What was finished then stays in a folder of its own, which the message names.
    """
    check_writable(out, parts, overwrite=overwrite or is_checked)
    target = Path(os.path.abspath(out))
    # Inside `out` where it exists: it can be a mount, which os.replace cannot move onto.
    if target.is_dir():
        parent = target
    else:
        parent = target.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with staging(parent) as folder:
            for name, content in parts.items():
                write_part(content, folder / NEW / name)
            try:
                place(folder, target, overwrite, job)
            except (OSError, SettingError) as error:
                rescued = parent / f"results-{folder.name.rpartition('-')[2]}"
                os.rename(folder / NEW, rescued)
                if isinstance(error, OSError):
                    why = _describe_refusal(out, error)
                else:
                    why = error
                raise SettingError(f"{why} The finished results are in {rescued}.") from error
    except OSError as error:
        raise SettingError(_describe_refusal(out, error)) from error
    return out / "index.html"


def _describe_refusal(out: Path, error: OSError) -> str:
    """Return a message that the results could not be written to `out`."""
    return (
        f"out must be a folder with room for the results; writing to {out} failed: "
        f"{error.strerror or error}. Free space or choose another folder."
    )


def write_part(content: Part, path: Path) -> None:
    """Write a file's content: a table as Parquet, a text, or by a callable that takes the path."""
    import pyarrow.parquet as pq

    if isinstance(content, str):
        # What UTF-8 cannot hold, such as half a surrogate pair, must not end a finished run.
        path.write_text(content, encoding="utf-8", errors="backslashreplace")
    elif callable(content):
        content(path)
    else:
        with path.open("wb") as file:  # Arrow opens no name that is not UTF-8
            pq.write_table(content, file)


def check_writable(out: Path, names: Iterable[str], *, overwrite: bool = False) -> None:
    """Raise, before any work, if results cannot be written to `out`."""
    # What a killed run left half done there is undone first.
    check_name(out)
    nearest = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise SettingError(
            f"out must be a folder; got {out}, but {nearest} is a file. Choose another folder."
        )
    names = list(names)
    for name in names:
        if (out / name).is_dir():
            raise SettingError(
                f"out must have room for the file {name}; in {out} that is a folder. "
                "Move it away or choose another folder."
            )
    try:
        heal(nearest)
        if nearest == out:  # a run killed just after it had put it there left its own in the parent
            heal(out.absolute().parent)
        if not overwrite:
            refuse_foreign(out, names)
        # Trying is the only honest test: permission bits say nothing to root or on a full disk.
        with staging(nearest) as folder, (folder / NEW / "room").open("wb") as file:
            if hasattr(os, "posix_fallocate"):  # not on every system
                os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        raise SettingError(
            f"out must be a folder that can be written, with {ROOM / 1e6:.0f} MB to spare; got "
            f"{out}, and {nearest} refuses: {error.strerror or error}. Free space, choose another "
            "folder or change its permissions."
        ) from error


def check_same_data(out: Path, data: str) -> None:
    """Raise if `out` holds the results of other data than `data`."""
    # data: a path or the name of a built-in set, compared with the earlier run's summary.
    if SUMMARY not in read_digests(out):
        return
    try:
        summary = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
        earlier_data = summary["facts"]["Data"].partition(":")[0]
        if summary.get("origin"):
            earlier_data = summary["origin"]["inputs"]["data"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return  # it was changed since, which is refused elsewhere
    path = Path(os.path.abspath(os.path.expanduser(data)))
    names = {data, path.name, path.stem, str(path), os.path.realpath(path)}
    if earlier_data not in names and not _is_moved(Path(earlier_data), path):
        raise SettingError(
            f"out must not replace the page of other data; {out} is about {earlier_data}. Choose "
            "another folder, or give --overwrite."
        )


def _is_moved(earlier: Path, path: Path) -> bool:
    """Return whether the data of an earlier run were moved to `path`, or copied there."""
    if earlier.name != path.name:
        return False
    if earlier.is_file() and path.is_file():
        return filecmp.cmp(earlier, path, shallow=False)
    return not earlier.exists()


def check_name(out: Path) -> None:
    """Raise if a path cannot be a folder's name: ~, a null byte, or too long."""
    if str(out).startswith("~"):
        raise SettingError(
            f"out must be a path; ~ is for the shell to replace; got {out}. Write the folder in "
            "full, or ./~ for one of that name."
        )
    try:
        os.lstat(out)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)  # a ValueError has none
        name = repr(str(out)[:60])
        raise SettingError(
            f"out must name a folder that can be made; got {name} ({len(str(out)):,} characters): "
            f"{why}. Choose another folder."
        ) from error


def check_outputs(
    out: Path, names: Iterable[str], inputs: Iterable[object], folders: Iterable[str | Path] = ()
) -> None:
    """Raise if results would replace an input, or lie inside a folder that is read."""
    # inputs: texts and paths that may name files; others are left alone. folders: data and earlier
    # results; where one is a folder, its files are read, and those of its folders may be.
    results = [out / name for name in names]
    for item in inputs:
        if isinstance(item, str | Path) and any(_is_same_file(item, result) for result in results):
            raise SettingError(
                f"out must not replace what is read; {item} is an input, and the results of the "
                f"same name would go to {out}. Choose another folder."
            )
    real = Path(os.path.realpath(out))
    for folder in folders:
        if os.path.isdir(folder) and Path(os.path.realpath(folder)) in (real, *real.parents):
            raise SettingError(
                f"out must lie outside of what is read, or the results would be read as data next "
                f"time; got {out}, and {folder} is an input. Choose another folder."
            )


def _is_same_file(path: str | Path, other_path: Path) -> bool:
    """Return whether two paths lead to one file, through hard or symbolic links, too."""
    try:
        has_one_path = os.path.realpath(path) == os.path.realpath(other_path)
        return has_one_path or os.path.samefile(path, other_path)
    except (OSError, ValueError):  # one of them is no file, or cannot be one
        return False
