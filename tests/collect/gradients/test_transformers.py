"""Models of transformers and adapters of peft: each sample's gradients are autograd's."""

import warnings

import pytest
import torch

from datassay.collect.gradients.batches import collate
from datassay.collect.gradients.criteria import objective
from datassay.collect.jacobian.per_sample import typed_copy
from helpers import transformers_models as tiny
from helpers.per_sample import check, direct

N = 4


@pytest.fixture(scope="module")
def tf():
    return tiny.imported("transformers")


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize("name", ["vit", "resnet", "convnext", "swin"])
def test_image_models(tf, name):
    engine = check(getattr(tiny, name)(tf), collate(tiny.images(N)), N)
    # Parameters of their own, and normalisations that no layer of torch computes.
    own = {
        "vit": ("cls_token", "position_embeddings"),
        "resnet": (),
        "convnext": ("layer_scale_parameter", "downsampling_layer.0.weight", "layer.0.bias"),
        "swin": ("relative_position_bias_table",),
    }[name]
    left = {n for n in direct(engine) if not n.endswith(own or ("none",))}
    assert not {n for n in left if "layernorm" not in n}
    assert bool(engine.warnings) == (name == "swin")  # its bias table, one sample at a time


def test_bert_for_sequences(tf):
    engine = check(tiny.bert(tf), collate(tiny.texts(N)), N)
    assert not direct(engine) and not engine.warnings


def test_gpt2_whose_embedding_is_its_head(tf):
    model = tiny.gpt2(tf)
    assert model.lm_head.weight is model.transformer.wte.weight
    engine = check(model, collate(tiny.texts(N, "none")), N)
    tied = next(b for b in engine.blocks if b.parameters == ("transformer.wte.weight",))
    assert set(tied.layers) == {"transformer.wte", "lm_head"}
    assert not direct(engine)


def test_t5_with_its_decoder(tf):
    model = tf.T5ForConditionalGeneration(tiny.t5_config(tf))
    engine = check(model, collate(tiny.texts(N, "token")), N)
    assert {n.split(".")[-2] for n in direct(engine)} == {"relative_attention_bias"}


def test_experts_of_switch_whose_router_has_a_type_of_its_own(tf):
    """Not each text has tokens for each expert, and the words are the decoder's head too."""
    config = tf.SwitchTransformersConfig(
        vocab_size=tiny.WORDS, d_model=8, d_kv=4, d_ff=8, num_layers=2, num_decoder_layers=2,
        num_heads=2, num_experts=3, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    model = typed_copy(tf.SwitchTransformersForConditionalGeneration(config), torch.float64)
    check(model, collate(tiny.texts(N, "token")), N)


def test_frames_of_timesformer(tf):
    config = tf.TimesformerConfig(
        image_size=8, patch_size=4, num_frames=2, num_labels=3, hidden_size=8,
        num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
    )  # fmt: skip
    batch = {"pixel_values": torch.randn(N, 2, 3, 8, 8), "labels": torch.arange(N) % 3}
    check(tf.TimesformerForVideoClassification(config), batch, N)


def test_llama_and_its_normalisation(tf):
    config = tf.LlamaConfig(
        vocab_size=tiny.WORDS, num_key_value_heads=1, pad_token_id=0, bos_token_id=0,
        eos_token_id=0, **tiny.SIZES,
    )  # fmt: skip
    assert not direct(check(tf.LlamaForCausalLM(config), collate(tiny.texts(N, "none")), N))


def test_several_choices_a_sample(tf):
    """The row of positions is one for all choices of all samples, which are six times two."""
    batch = {"input_ids": torch.randint(1, tiny.WORDS, (N, 3, 5)), "labels": torch.arange(N) % 3}
    engine = check(tiny.bert(tf, "BertForMultipleChoice"), batch, N)
    assert direct(engine) == {"bert.embeddings.position_embeddings.weight"}


@pytest.mark.parametrize(
    "kind", ["PromptTuningConfig", "PromptEncoderConfig", "PrefixTuningConfig"]
)
@pytest.mark.filterwarnings("ignore::FutureWarning")  # peft asks transformers by an old name
def test_learnt_prompts(tf, kind):
    """Prompts come before the text, in its logits too, of which the first token is one's next."""
    peft = tiny.imported("peft")
    further = {"encoder_hidden_size": 4} if kind == "PromptEncoderConfig" else {}
    config = getattr(peft, kind)(task_type="CAUSAL_LM", num_virtual_tokens=2, **further)
    model = peft.get_peft_model(tiny.gpt2(tf), config).double().eval()
    batch = {"input_ids": torch.randint(1, tiny.WORDS, (N, 5))}
    check(model, batch, N)
    loss = objective("auto", model, batch).losses(model, batch).mean()
    n_places = 4 if kind == "PrefixTuningConfig" else 5
    theirs = model(**batch, labels=batch["input_ids"]).loss * n_places
    torch.testing.assert_close(loss.float(), theirs)  # they compute it in float32


def test_dora(tf):
    peft = tiny.imported("peft")
    config = peft.LoraConfig(
        r=2, use_dora=True, init_lora_weights=False, target_modules=["query"], task_type="SEQ_CLS"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        model = peft.get_peft_model(tiny.bert(tf), config)
    check(model, collate(tiny.texts(N)), N)


def test_adapters_of_peft(tf):
    peft = tiny.imported("peft")
    settings = {"target_modules": ["query", "value"], "task_type": "SEQ_CLS"}
    config = peft.LoraConfig(r=2, init_lora_weights=False, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by an old name
        model = peft.get_peft_model(tiny.bert(tf), config)
    engine = check(model, collate(tiny.texts(N)), N)
    names = {name for block in engine.blocks for name in block.parameters}
    assert not direct(engine)
    assert any("lora_A" in n for n in names) and any("classifier" in n for n in names)
    assert not any("base_layer" in n or "original_module" in n for n in names)
    only = check(model, collate(tiny.texts(N)), N, parameters="lora_")
    assert all("lora_" in name for block in only.blocks for name in block.parameters)
    assert len(only.blocks) == 2 * 2 * 2  # A and B, of two projections of two layers
