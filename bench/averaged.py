"""How well one shared kernel stands in for all outputs: averaged against joint, on digits.

400 training samples, 10 outputs, MLPs of growing width; rank correlation of the information of
each sample under the two forms, and under the joint form projected to 1000 coordinates a tensor.
"""

from record import record
from scipy.stats import spearmanr

from datassay.collect import collect
from datassay.data import load
from datassay.models import build_model
from datassay.score import leave_one_out

N_TRAIN, WIDTHS = 400, (64, 256, 1024)


def main() -> None:
    train, val = load("digits")
    train = train.subset(slice(0, N_TRAIN))
    for width in WIDTHS:
        model = build_model(f"mlp:width={width}", train)
        forms = {
            "joint": {"outputs": "joint", "projection": None},
            "averaged": {"outputs": "averaged", "projection": None},
            "projected": {"outputs": "joint", "projection": 1000},
        }
        found = {name: leave_one_out(collect(model, train, val, **f)) for name, f in forms.items()}
        exact = found["joint"].prediction_change
        rank = {n: float(spearmanr(exact, r.prediction_change)[0]) for n, r in found.items()}
        agree = (found["joint"].held_out.argmax(1) == found["averaged"].held_out.argmax(1)).mean()
        record(
            f"averaged/digits width {width}",
            n=N_TRAIN,
            k=10,
            width=width,
            spearman_averaged=rank["averaged"],
            spearman_projected=rank["projected"],
            held_out_class_agreement=float(agree),
        )


if __name__ == "__main__":
    main()
