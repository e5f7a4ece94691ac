"""The course (S2) as experiments that run, plot and check themselves.

`course.toml` is the table of contents and says what is shown; a file holds
one statement: a pure function with a frozen result, and its plots.
"""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay_lab.job import chosen as chosen
    from datassay_lab.job import run_lab as run_lab
    from datassay_lab.regularisation.weight_decay import weight_decay as weight_decay
    from datassay_lab.regularisation.weight_decay import weight_decay_plots as weight_decay_plots

make_public(__name__)
