"""The command line's options: names, types and help, each written once for all commands."""

# Not postponed: typer reads these annotations when it builds the commands.
from pathlib import Path
from typing import Annotated

import typer

DATA_HELP = (
    "digits, breast_cancer, wine, iris, diabetes, moons, sd2, sd3, routable, or a path: .npz, "
    ".csv, .parquet, a folder of MNIST-style IDX files, a folder of class-named image folders."
)
MODEL_HELP = (
    "mlp, mlp:width=1024,depth=2, linear, logistic, cnn, lenet5, or package.module:factory."
)
Data = Annotated[str | None, typer.Argument(help=DATA_HELP, show_default=False)]
DataOption = Annotated[
    str | None, typer.Option("--data", help="The same as DATA.", show_default=False)
]
Out = Annotated[Path, typer.Option(help="Folder for the results; made if it does not exist.")]
Seed = Annotated[int, typer.Option(help="Of split, noise, weights, projection and batches.")]
Target = Annotated[str | None, typer.Option(help="Label column of a table (default: the last).")]
Ids = Annotated[str | None, typer.Option(help="Id column of a table (default: row numbers).")]
SourceColumn = Annotated[
    str | None, typer.Option(help="Column that says where each row came from; no feature then.")
]
Task = Annotated[str | None, typer.Option(help="classification or regression (default: by y).")]
ValFraction = Annotated[float, typer.Option(help="Split off where there is no validation part.")]
Noise = Annotated[float, typer.Option(help="Fraction of training labels to flip, truth kept.")]
NoiseKind = Annotated[str, typer.Option(help="uniform, or pair (each class to the next).")]
Adversarial = Annotated[
    float, typer.Option(help="Fraction of training inputs to replace by adversarial ones.")
]
Epsilon = Annotated[float, typer.Option(help="Largest change of an adversarial input's value.")]
Smoothing = Annotated[
    str, typer.Option(help="Which information: functional, isotropic, fisher or sgd.")
]
Sigma = Annotated[float, typer.Option(help="Of the smoothing noise: divides information by σ².")]
BatchSize = Annotated[
    int | None, typer.Option(help="Of the SGD asked about; for --smoothing sgd only.")
]
Attribution = Annotated[
    str,
    typer.Option(help="Effect on each validation output, margin or loss; auto or none."),
]
AttributionAt = Annotated[
    str,
    typer.Option(help="Effects in the linearised network: start; at trained ones: trained."),
]
Top = Annotated[int, typer.Option(help="Samples kept a validation sample and direction.")]
Model = Annotated[str, typer.Option(help=MODEL_HELP)]
Weights = Annotated[
    Path | None, typer.Option(help=".safetensors or state dict, trained on OTHER data.")
]
AllowTrained = Annotated[
    bool, typer.Option("--allow-trained", help="Accept weights that have seen these labels.")
]
Lr = Annotated[str, typer.Option(help="Learning rate, or auto: 0.5/λ_max of the kernel.")]
Steps = Annotated[int, typer.Option(help="Training steps of the linearised network.")]
WeightDecay = Annotated[float, typer.Option(help="Penalty towards the initial weights.")]
Reduction = Annotated[str, typer.Option(help="sum or mean loss: what lr and decay refer to.")]
Dynamics = Annotated[str, typer.Option(help="flow, descent or converged.")]
Projection = Annotated[str, typer.Option(help="auto, none (exact), or features a tensor.")]
RankCorrelation = Annotated[
    float | None,
    typer.Option(help="With exact scores; the smallest projection that reaches it is taken."),
]
Outputs = Annotated[str, typer.Option(help="auto, joint or averaged kernel over the outputs.")]
Device = Annotated[
    str, typer.Option(help="Where Jacobians and products are computed: cpu, cuda or cuda:1.")
]
Memory = Annotated[float | None, typer.Option(help="GB to stay within (default: what is free).")]
Products = Annotated[
    str, typer.Option(help="Precision of products over all rows: auto, float64, float32, bfloat16.")
]
Store = Annotated[
    str | None,
    typer.Option(help="Folder or URL that keeps finished work: the same command then goes on."),
]
Engine = Annotated[
    str, typer.Option(help="Who computes: in_process, processes or ray. The numbers are the same.")
]
Address = Annotated[
    str | None, typer.Option(help="Of a running Ray cluster (default: one of its own, here).")
]
Workers = Annotated[
    int | None, typer.Option(help="Of processes, or of a Ray started here (default: by cores).")
]
Subsets = Annotated[
    int,
    typer.Option(help="Random subsets a size to average information over (8 or more); 0 is none."),
]
Check = Annotated[
    int,
    typer.Option(help="Samples to really retrain without, to check the scores by; 0 is none."),
]
CurveSeeds = Annotated[int, typer.Option(help="Networks retrained a point; 0 skips retraining.")]
BlockModel = Annotated[
    str, typer.Option(help="logistic or linear, solved exactly; purify trains others anew.")
]
Ridge = Annotated[float, typer.Option(help="Of a linear model, (ridge/2)‖θ‖² on the mean loss.")]
Damping = Annotated[float, typer.Option(help="Added to the Hessian behind V; not to the fits.")]
