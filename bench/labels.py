"""Label errors on digits: our score, the final training loss, and cross-validated regression.

Same noisy labels in the same run. The loss is that of the same MLP after the library's own
training recipe, averaged over five networks; the margin is that of 5-fold cross-validated logistic
regression. Figures are means over seeds of noise and initial weights.
"""

import numpy as np
from record import record

from datassay.act import auroc, task_recipe, train_all
from datassay.collect import collect
from datassay.commands import cross_validated_margin
from datassay.data import add_label_noise, load
from datassay.models import build_model
from datassay.score import label_issues
from datassay.train import sample_losses

SEEDS = 5


def final_loss(noisy, seed: int) -> np.ndarray:
    import torch

    models = [build_model("mlp", noisy, seed=10 * seed + s) for s in range(5)]
    trained = train_all(models, noisy, seed=seed)
    outputs = trained.outputs(torch.as_tensor(noisy.x).float())
    return sample_losses(outputs, noisy, task_recipe(noisy)).mean(0).numpy()


def main() -> None:
    for kind, rate in (("uniform", 0.1), ("pair", 0.3)):
        rows = []
        for seed in range(SEEDS):
            train, _ = load("digits", seed=seed)
            noisy = add_label_noise(train, rate, kind=kind, seed=seed)
            wrong = noisy.y != noisy.true_y
            lin = collect(build_model("mlp", noisy, seed=seed), noisy)
            first, found = label_issues(lin, rounds=0), label_issues(lin)
            hits = (found.is_issue & wrong).sum()
            rows.append([
                auroc(wrong, found.score),
                auroc(wrong, first.score),
                auroc(wrong, final_loss(noisy, seed)),
                auroc(wrong, cross_validated_margin(noisy)),
                hits / found.is_issue.sum(),
                hits / wrong.sum(),
            ])
        mean, worst = np.mean(rows, 0), np.min(rows, 0)
        record(
            f"labels/digits {rate:.0%} {kind}",
            n=len(train),
            seeds=SEEDS,
            auroc=mean[0],
            auroc_lowest_seed=worst[0],
            auroc_without_reweighting=mean[1],
            auroc_final_loss=mean[2],
            auroc_cross_validated_logistic=mean[3],
            precision=mean[4],
            recall=mean[5],
        )


if __name__ == "__main__":
    main()
