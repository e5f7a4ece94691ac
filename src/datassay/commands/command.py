"""One command: its name, help, settings, and the package that holds its job and its page.

A command's package holds `command.py` with a COMMAND, and modules that are imported when it runs:
`job.py` with `run(train, val, settings, progress)`, which gives the results, and `page.py` with
`page(results)`, which gives a Page, FILES, and `files(results, page)`, which gives the tables,
texts and other files beside it (or these two in `files.py`). A job may also have
`check_settings(settings)`, which refuses before anything is loaded, and
`plan_lines(train, val, settings)`, printed by --plan. A command that is short has all of it in one
module instead. Options are read off the settings' fields.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datassay.commands.inputs import (
    DataInputs,
    NoiseInputs,
    asked_backbone,
    check_inputs,
    load_sets,
    with_noise,
)
from datassay.commands.shell import err_console, out_console, say
from datassay.data.settings import HELD_OUT
from datassay.errors import SettingError, hide_credentials
from datassay.rules import require
from datassay.setting import default_of, settings_of

if TYPE_CHECKING:
    from datassay.report.page import Page

PAGE = "index.html"
# Settings that may name a folder that the command reads.
FOLDERS_READ = ("data", "data_option", "folders", "queries", "index", "before")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of the command line.

    Attributes:
        name: as it is typed.
        help: what it does, what it writes, and examples.
        settings: dataclass of its job's settings.
        home: dotted name of the package with `job` and `page`, or of one module with both; empty:
            the package that `settings` is in.
        out: folder of its results unless another is named.
        inputs: further dataclasses whose fields are options: which samples, what is corrupted.
        order: its place in `datassay --help`.
        common: names of the options that `--help` shows, with spaces between; the others are
            shown by `--help-all`. Empty: all are shown.
        scores_all: whether it does without a validation part, so that of a table every row is
            scored unless `--val-fraction` says otherwise.
        has_out: whether it writes results to a folder, which `--out` names.
        has_page: whether it prints a page in short, of which `--verbose` prints the tables.
    """

    name: str
    help: str
    settings: type
    out: str
    home: str = ""
    inputs: tuple[type, ...] = (DataInputs,)
    order: int = 100
    common: str = ""
    scores_all: bool = False
    has_out: bool = True
    has_page: bool = True

    def epilog(self) -> str:
        """Return the last paragraph of its help; called when the help is shown."""
        return ""

    @property
    def groups(self) -> tuple[type, ...]:
        """The dataclasses whose fields are its options; one that two share is one option."""
        return (self.settings, *self.inputs)

    def start(self, user_input: Mapping[str, Any], out: Path) -> None:
        """Run the command: check, load, compute, write all files or none, print; or print its plan.

        Args:
            user_input: field name → value, of all groups, and `overwrite`.
            out: folder of the results; other files in it stay.

        Raises:
            DatassayError: bad options, samples or model; one sentence says which.
        """
        settings = settings_from(self.settings, user_input)
        only_plans = user_input.get("plan")
        from datassay.store.outputs import check_outputs, check_same_data, check_writable

        reads = []
        for value in filter(None, map(user_input.get, FOLDERS_READ)):
            reads += value if isinstance(value, tuple) else (value,)
        # The page alone at first: the names of the other files are slow to import.
        if not only_plans:
            check_outputs(out, (PAGE,), user_input.values(), reads)
            check_writable(out, (PAGE,), overwrite=user_input["overwrite"])
        is_described = self.check_first(user_input)
        from datassay.commands.terminal import ProgressDisplay

        job = self.module("job")
        if hasattr(job, "check_settings"):
            job.check_settings(settings)
        if not only_plans:
            names = (*self.module("files").FILES, PAGE)
            check_outputs(out, names, user_input.values(), reads)
            check_writable(out, names, overwrite=user_input["overwrite"])
            data_may_differ = user_input["overwrite"] or user_input.get("before")  # then corrected
            if DataInputs in self.inputs and not data_may_differ:
                check_same_data(out, settings_from(DataInputs, user_input).named)
        start_folder = Path.cwd()
        arguments = self.arguments(user_input)
        if arguments and not is_described:
            _say_what_was_read(user_input, arguments["train"], arguments["val"])
        if only_plans:
            lines = job.plan_lines(arguments["train"], arguments["val"], settings)
            return out_console.print(*lines, sep="\n")
        with ProgressDisplay(err_console) as progress:
            job_inputs = self.further_arguments(
                start_folder, out, overwrite=user_input["overwrite"]
            )
            results = job.run(**arguments, **job_inputs, settings=settings, progress=progress)
            os.chdir(start_folder)  # a model's code may change it, and `out` can be relative
            page, path = self.write(results, out, overwrite=user_input["overwrite"])
        self.show(results, settings, page, path, verbose=bool(user_input.get("verbose")))

    def check_first(self, user_input: Mapping[str, Any]) -> bool:
        """Raise if an option or a path is invalid, before anything heavy is imported.

        Returns:
            Whether a line said what the data hold, as it does of a small table.
        """
        for group in self.groups:
            for name, spec in settings_of(group).items():
                if spec.rule is not None and user_input.get(name) is not None:
                    spec.rule(name, user_input[name])
            if hasattr(group, "refuse"):
                settings_from(group, user_input).refuse(only_plan=bool(user_input.get("plan")))
        if DataInputs not in self.inputs:
            return False
        inputs = settings_from(DataInputs, user_input)
        glance = check_inputs(user_input, inputs, settings_from(NoiseInputs, user_input))
        if glance is None:
            return False
        from datassay.report.columns import first_line

        name = Path(inputs.named).name
        say(first_line(name, glance.n_rows, glance.columns, glance.y, glance.class_names))
        return True

    def arguments(self, user_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return {"train": samples, "val": held-out ones} for the job; {} if it reads no data."""
        if DataInputs not in self.inputs:
            return {}
        train, val = self.loaded(user_input)
        if NoiseInputs in self.inputs:
            train = with_noise(train, settings_from(NoiseInputs, user_input), user_input["seed"])
        return {"train": train, "val": val}

    def further_arguments(self, base: Path, out: Path, *, overwrite: bool) -> dict[str, Any]:
        """Return further arguments of the job; `out` may be relative to the folder `base`."""
        return {}

    def loaded(self, user_input: Mapping[str, Any], store: str | None = None) -> tuple[Any, Any]:
        """Load the samples that the inputs name.

        Args:
            user_input: field name → value, of all groups.
            store: keeps embeddings; None keeps nothing.

        Returns:
            (train, val), embedded where the model asks for a frozen encoder; val may be None only
            where `scores_all`.

        Raises:
            DatassayError: what `load` raises, or nothing may be held out here.
        """
        from datassay.commands.terminal import ProgressDisplay

        inputs = settings_from(DataInputs, user_input)
        if not self.scores_all:
            if inputs.val_fraction is None:
                inputs = replace(inputs, val_fraction=HELD_OUT)
            why = f" for {self.name}, which judges on samples held out"
            is_positive = bool(inputs.val_fraction)
            require(is_positive, "val-fraction", "be above 0", 0, why=why, remedy="Leave it out.")
        with ProgressDisplay(err_console) as progress:
            backbone = asked_backbone(user_input, store, progress)
            return load_sets(inputs, backbone, user_input.get("queries"))

    def module(self, name: str) -> Any:
        """Return the module with its "job", "page" or "files": of its package, or one for all."""
        home = self.home or self.settings.__module__.rpartition(".")[0]
        module = import_module(home)
        if not hasattr(module, "__path__"):
            return module
        if name == "files" and find_spec(f"{home}.files") is None:
            name = "page"
        return import_module(f"{home}.{name}")

    def write(self, results: Any, out: Path, *, overwrite: bool = False) -> "tuple[Page, Path]":
        """Write the page and all other files of the results, or none of them.

        Args:
            results: of the job.
            out: folder; other files in it stay.
            overwrite: whether files that datassay did not write may be replaced.

        Returns:
            The page, and the path to tell the user.

        Raises:
            SettingError: the folder cannot be written, or the disk is full.
        """
        from datassay.report.html import render
        from datassay.store.outputs import write_pages

        page = self.module("page").page(results)
        files = self.module("files")
        parts = {**files.files(results, page), PAGE: render(page)}
        return page, write_pages(parts, out, overwrite=overwrite, is_checked=True, job=files.FILES)

    def show(
        self, results: Any, settings: Any, page: "Page", path: Path, *, verbose: bool = False
    ) -> None:
        """Print the page in short, where it is, and what to type next."""
        from datassay.commands.terminal import next_lines, page_lines

        out_console.print(*page_lines(page, verbose=verbose), sep="\n")
        out_console.print(*next_lines(page, path), sep="\n", soft_wrap=True)


def _say_what_was_read(user_input: Mapping[str, Any], train: Any, val: Any) -> None:
    """Print what was read, of data whose columns could not be described before loading."""
    from datassay.report.columns import first_line

    name = Path(settings_from(DataInputs, user_input).named).name
    n_samples = len(train) + (0 if val is None else len(val))
    say(first_line(name, n_samples, train.columns, train.y, train.class_names))


def settings_from(cls: type, options: Mapping[str, Any]) -> Any:
    """Return the settings class filled from options; a field `command` gets the command line."""
    names = {f.name for f in fields(cls)}
    values = {name: value for name, value in options.items() if name in names}
    if "command" in names:  # quoted for a shell, without credentials
        words = ["datassay", *(hide_credentials(word, is_url=True) for word in sys.argv[1:])]
        values["command"] = shlex.join(words)
    return cls(**values)


def refuse_others(
    options: Mapping[str, Any], cls: type, shared_with: tuple[type, ...], why: str
) -> None:
    """Raise if an option that only `cls` has, none of `shared_with`, was given a value."""
    shared_names = {name for group in shared_with for name in settings_of(group)}
    for name, spec in settings_of(cls).items():
        default = default_of(cls, name)
        if name not in shared_names and options.get(name, default) != default:
            raise SettingError(f"{spec.flag(name)} {why}; got {options[name]}. See --help.")
