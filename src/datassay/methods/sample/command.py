"""`datassay sample`."""

from dataclasses import MISSING, dataclass

from datassay.commands.command import Command
from datassay.methods.sample.settings import Sampling
from datassay.rules import require
from datassay.setting import setting


def check_function(name: str, value: str) -> None:
    """Raise if a word names no built-in function and could name no function of the user."""
    rule = "be runge, tanh, bateman, bateman:M (M = 1 to 99 materials) or package.module:function"
    is_known = ":" in value or value in {"runge", "tanh", "bateman"}
    require(is_known, f"the {name}", rule, repr(value))


@dataclass(frozen=True)
class SampleSettings:
    """Settings of the job; the defaults are those of `datassay sample FUNCTION`."""

    function: str = setting(
        MISSING,
        "runge, tanh, bateman, bateman:M, or package.module:function of [n, d] points.",
        argument=True,
        rule=check_function,
    )
    domain: str | None = setting(
        None, "low:high of each input, as 0:1,0:10 (default: the problem's own)."
    )
    n_initial: int = setting(Sampling.n_initial, "Points to look at first.")
    n_new: int = setting(Sampling.n_new, "Points to add.")
    order: int = setting(Sampling.order, "Highest order of derivatives.")
    epsilon: float = setting(
        Sampling.epsilon, "Weighs the orders: a variance, in input units squared."
    )
    components: int = setting(Sampling.n_components, "Gaussians in the density.")
    initial: str = setting(Sampling.initial, "First points: uniform, or grid.")
    derivatives: str = setting(
        Sampling.derivatives, "auto, autograd (torch), or finite (differences of a black box)."
    )
    compare: int = setting(
        10, "Networks trained on each design, to see if it helps; 0: none, and f is asked no more."
    )
    seed: int = setting(Sampling.seed, "Of the points, and of the networks' weights.")
    command: str = ""


COMMAND = Command(
    name="sample",
    common="domain n_initial n_new order initial derivatives compare seed",
    help="""Sample a function where it changes most (Taylor-based sampling).

    Writes samples.parquet, samples.npz (x and y, for every other command), summary.json and one
    page, which asks whether a small network learns more from these points than from uniform ones.

    Examples:
      datassay sample runge --n-initial 8 --n-new 8 --initial grid --out sampled
      datassay sample bateman --n-initial 2000 --n-new 2000 --components 10 --epsilon 0.0005
      datassay sample simulator:drag --domain 0:1,-5:5 --derivatives finite --compare 0
    """,
    settings=SampleSettings,
    inputs=(),
    out="sampled",
    order=50,
)
