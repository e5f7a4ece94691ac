"""Which kind of data it is, and so how it is given back."""

from __future__ import annotations

from pathlib import Path

from datassay.data.back.arrays import original_builtin, original_npz
from datassay.data.back.changelog import given_back_file
from datassay.data.back.idx import original_idx_folder
from datassay.data.back.image_folder import original_image_folder
from datassay.data.back.original import Original
from datassay.data.back.tables import original_table
from datassay.data.files.idx import idx_files
from datassay.data.files.image_folder import class_folders
from datassay.data.files.saved_dataset import is_saved_dataset
from datassay.data.files.tables import SUFFIXES
from datassay.data.synthetic.builtin import BUILTINS
from datassay.data.tables.choices import Choices
from datassay.errors import DataError


def original(data: str | Path, chosen: Choices, *, link: bool = True) -> Original:
    """Data as they are stored, ready to be given back.

    Args:
        data: a built-in name, or the path of a file or folder that `load` reads.
        chosen: what the columns of a table are for, and the task.
        link: whether files that do not change may be given back as second names of the same file.

    Returns:
        Ids, labels, and what gives them back.

    Raises:
        DataError: what `load` raises of them, or nothing is there that could be given back.
    """
    if str(data) in BUILTINS:
        return original_builtin(str(data))
    path = Path(data).expanduser()
    if path.is_dir():
        if file := given_back_file(path):
            return original(file, chosen, link=link)
        if is_saved_dataset(path):
            return original_table(path, chosen)
        if idx_files(path):
            return original_idx_folder(path, link=link)
        if class_folders(path):
            return original_image_folder(path, link=link)
    elif path.is_file():
        if path.name.lower().endswith(SUFFIXES):
            return original_table(path, chosen)
        if path.suffix.lower() == ".npz":
            return original_npz(path, chosen.task)
    raise DataError(
        f"data must be a built-in name ({', '.join(BUILTINS)}) or a file or folder that datassay "
        f"reads; got {str(data)!r}. Check the spelling."
    )
