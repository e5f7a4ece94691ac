"""Step 0: names, files and arrays become sample sets."""

from typing import TYPE_CHECKING

from datassay.public_module import make_public

if TYPE_CHECKING:
    from datassay.data.back.original import Change as Change
    from datassay.data.corrupt.adversarial import AdversarialSamples as AdversarialSamples
    from datassay.data.corrupt.adversarial import add_adversarial as add_adversarial
    from datassay.data.corrupt.images import add_noise as add_noise
    from datassay.data.corrupt.images import add_patches as add_patches
    from datassay.data.corrupt.images import patch_boxes as patch_boxes
    from datassay.data.corrupt.label_noise import add_label_noise as add_label_noise
    from datassay.data.format import Format as Format
    from datassay.data.format import TableFormat as TableFormat
    from datassay.data.formats.idx import read_idx as read_idx
    from datassay.data.formats.idx import read_idx_folder as read_idx_folder
    from datassay.data.load import load as load
    from datassay.data.samples import Encoding as Encoding
    from datassay.data.samples import SampleSet as SampleSet
    from datassay.data.settings import check_seed as check_seed
    from datassay.data.source import reading as reading
    from datassay.data.synthetic.functions import FunctionProblem as FunctionProblem
    from datassay.data.synthetic.functions import bateman as bateman
    from datassay.data.synthetic.functions import function_problem as function_problem
    from datassay.data.synthetic.mixtures import LETTERS as LETTERS
    from datassay.data.synthetic.mixtures import clashing as clashing
    from datassay.data.synthetic.mixtures import letter_labels as letter_labels
    from datassay.data.synthetic.mixtures import letter_samples as letter_samples
    from datassay.data.synthetic.mixtures import routable_mixture as routable_mixture
    from datassay.data.synthetic.mixtures import sd_mixture as sd_mixture

make_public(__name__)
