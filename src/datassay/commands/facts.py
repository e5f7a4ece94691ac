"""Facts that pages share: which samples, what was corrupted, and what repeats the result."""

import time
from importlib.metadata import version
from pathlib import Path

from torch import nn

from datassay.collect.fingerprint import samples_fingerprint, weights_digest
from datassay.data.samples import SampleSet, wrong_labels
from datassay.models.reference import is_reference, reference_file
from datassay.report.wording import count
from datassay.store.folders import sha256

DIGITS = 16  # of a digest, as pages show it


def data_facts(train: SampleSet, val: SampleSet | None) -> dict[str, str]:
    """Return facts for the page: numbers of samples, where held-out ones are from, digests."""
    digests = f"training {samples_fingerprint(train)[:DIGITS]}"
    sizes = f"{len(train):,} samples, all for training; none is held out"
    if val is not None:
        origin = "given"
        if val.split_off:
            origin = "split off"
        sizes = f"{len(train):,} training, {len(val):,} validation samples ({origin})"
        digests += f", validation {samples_fingerprint(val)[:DIGITS]}"
    if train.groups is not None:
        sizes += f"; {len(set(train.groups.tolist())):,} groups are held out whole"
    facts = {"Data": f"{train.name}: {sizes}"}
    encoding = train.encoding
    if encoding is not None and encoding.name:  # which frozen encoder made the inputs
        text = (
            f"{encoding.name}, {encoding.width:,} numbers per sample: {encoding.recipe}. "
            f"SHA-256 of its weights {encoding.digest[:DIGITS]}"
            + (f"; {encoding.seconds:g} s" if encoding.seconds else "; from the store")
        )
        facts["Features"] = text
        if encoding.note:
            facts["Features"] = f"{text}. {encoding.note}"
    elif encoding is not None and encoding.note:  # that none was there for images or texts
        facts["Features"] = encoding.note[:1].upper() + encoding.note[1:]
    return facts | {"Data SHA-256": digests}


def weights_facts(model: nn.Module) -> dict[str, str]:
    """Return the digest of the weights and buffers that a network starts from."""
    return {"Weights SHA-256": weights_digest(model)[:DIGITS]}


def file_digest(path: Path) -> str:
    """Return the digest of a file's content, ready to show."""
    return f"SHA-256 {sha256(path)[:DIGITS]}"


def model_facts(model: str, text: str) -> dict[str, str]:
    """Return {"Model": text}, and the path of the file if the model is the user's own code."""
    file = {}
    if is_reference(model):
        file = {"Model file": reference_file(model)}
    return {"Model": text, **file}


def noise_facts(train: SampleSet) -> dict[str, str]:
    """Return the fact of how many labels --noise flipped; {} if the true labels are unknown."""
    is_wrong = wrong_labels(train)
    if is_wrong is None:
        return {}
    return {"Label noise": f"{count(int(is_wrong.sum()), 'label')} flipped on purpose"}


def seed_facts(seed: int | str) -> dict[str, str]:
    """Return the seed and version, which with the same settings repeat the numbers."""
    return {"Seed": str(seed), "Version": version("datassay")}


def closing_facts(started: float, seed: int, command: str) -> dict[str, str]:
    """Return the last facts of a job: seed, version, seconds since `started`, command line."""
    facts = seed_facts(seed) | {"Seconds": f"{time.perf_counter() - started:.1f}"}
    return facts | ({"Command": command} if command else {})
