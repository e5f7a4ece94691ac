"""Everything about the sample complexity of teacher networks, gathered for page and files."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from datassay.complexity.laws import Law
from datassay.complexity.table import ComplexityTable
from datassay.results import result

# The laws that S3 arrives at (eqs. 2.13, 2.14 and Fig. 2.10), by what varies.
S3_LAW = {"d": "linear", "m": "log", "d·log m": "linear"}


@result
class TeacherFindings:
    """Sample complexity of several network sizes, and its laws.

    Attributes:
        table: of all sizes.
        varied: what the laws are in: "d", "m", or "d·log m" where both vary.
        laws: best R² first; empty where fewer than three sizes have a median.
        facts: what was run, name to value, in the order to show.
    """

    table: ComplexityTable
    varied: str
    laws: tuple[Law, ...]
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def x(self) -> np.ndarray:
        """What varies, one value a size."""
        d, m = self.table.n_inputs, self.table.width
        return {"d": d, "m": m, "d·log m": d * np.log(m)}[self.varied].astype(np.float64)

    @property
    def medians(self) -> np.ndarray:
        """Median over the teachers; infinite where half of them were not recovered."""
        return np.array([s.median for s in self.table.sizes])

    @property
    def law(self) -> Law | None:
        """The one of S3's form; None without laws."""
        kinds = [law for law in self.laws if law.kind == S3_LAW[self.varied]]
        return kinds[0] if kinds else None
