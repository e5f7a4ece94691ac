"""`datassay example`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from datassay.commands.command import Command, settings_from
from datassay.commands.shell import out_console
from datassay.data.settings import Loading
from datassay.errors import SettingError
from datassay.setting import setting

TRUTH, README = "truth.csv", "README.txt"


@dataclass(frozen=True)
class ExampleSettings:
    """The example and its seed."""

    name: str = setting("digits", "digits (images), people (a table) or texts.", argument=True)
    seed: int = setting(Loading.seed, "Of everything that is drawn.")


class _Example(Command):
    """A command that writes data, and no page."""

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Write the example, all files or none; say where the data are and what to type next."""
        from pyarrow import csv

        from datassay.data.synthetic.examples import example
        from datassay.store.folders import read_digests
        from datassay.store.outputs import check_writable, write_pages

        settings: ExampleSettings = settings_from(self.settings, user_input)
        dataset = example(settings.name, seed=settings.seed)
        check_writable(out, (dataset.file, TRUTH, README), overwrite=user_input["overwrite"])
        names = read_digests(out)  # of files that are ours
        if TRUTH in names and dataset.file not in names:
            raise SettingError(
                f"out must be a folder of its own, whose {TRUTH} is that of {settings.name}; {out} "
                "holds another example. Choose another folder."
            )
        data = shlex.quote(str(out / dataset.file))
        text = Path(__file__).with_name(f"{settings.name}.txt").read_text(encoding="utf-8")
        text = text.format(data=data)
        truth = partial(csv.write_csv, dataset.truth)
        parts = {dataset.file: dataset.write, TRUTH: truth, README: text}
        write_pages(parts, out, overwrite=user_input["overwrite"])
        command = next(line.strip() for line in text.splitlines() if line.startswith("  datassay"))
        out_console.print(str(out / dataset.file), f"Next: {command}", sep="\n", soft_wrap=True)


COMMAND = _Example(
    name="example",
    help="""Write a small data set with planted faults, and a file with the truth about them.

    digits: images, wrong labels of two kinds, near copies. people: a table with wrong labels,
    copies, a column that gives the label away, missing values. texts: messages with wrong labels.
    truth.csv says of every sample its true label and its fault; no command reads it. The same
    bytes for the same seed; needs no network.

    Examples:
      datassay example digits --out example
      datassay example people --out people
    """,
    settings=ExampleSettings,
    inputs=(),
    out="example",
    order=5,
)
