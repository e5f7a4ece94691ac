"""The course (S2) as experiments that run, plot and check themselves.

`catalog.py` is the table of contents; every other experiment's file holds one statement: a pure
function with a frozen result, its plots, and the `EXPERIMENT` that says what they show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from datassay.face import face

if TYPE_CHECKING:
    from datassay_lab.regularisation.weight_decay import weight_decay as weight_decay
    from datassay_lab.regularisation.weight_decay import weight_decay_plots as weight_decay_plots
    from datassay_lab.run import chosen as chosen
    from datassay_lab.run import run_lab as run_lab

face(__name__)
