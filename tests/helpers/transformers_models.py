"""Tiny models of transformers, made on the spot, and batches for them."""

import importlib
import warnings

import pytest
import torch

WORDS, LONGEST = 40, 7
SIZES = {
    "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
}  # fmt: skip


def imported(name):
    """The module; the test is skipped visibly where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports
        pytest.importorskip(name)
        return importlib.import_module(name)


def texts(n=4, labels="class"):
    """Samples as dictionaries, of different lengths; labels of the text, of each token, or none."""
    generator = torch.Generator().manual_seed(3)
    results = []
    for i in range(n):
        size = 3 + (2 * i) % (LONGEST - 2)
        ids = torch.randint(1, WORDS, (size,), generator=generator).tolist()
        own = {"class": {"labels": i % 2}, "token": {"labels": [v % 3 for v in ids]}}
        results.append({"input_ids": ids, **own.get(labels, {})})
    return results


def images(n=4):
    generator = torch.Generator().manual_seed(3)
    return [
        {"pixel_values": torch.randn(3, 16, 16, generator=generator), "labels": i % 3}
        for i in range(n)
    ]


def bert(tf, kind="BertForSequenceClassification", k=2, positions=LONGEST + 1):
    config = tf.BertConfig(
        vocab_size=WORDS, max_position_embeddings=positions, num_labels=k, **SIZES
    )
    return getattr(tf, kind)(config)


def gpt2(tf):
    config = tf.GPT2Config(
        vocab_size=WORDS, n_embd=8, n_layer=2, n_head=2, n_positions=LONGEST + 1, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return tf.GPT2LMHeadModel(config)


def t5_config(tf):
    return tf.T5Config(
        vocab_size=WORDS, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2,
        relative_attention_num_buckets=6, relative_attention_max_distance=8, pad_token_id=0,
        decoder_start_token_id=0,
    )  # fmt: skip


def vit(tf):
    config = tf.ViTConfig(image_size=16, patch_size=8, num_labels=3, **SIZES)
    return tf.ViTForImageClassification(config)


def swin(tf):
    config = tf.SwinConfig(
        image_size=16, patch_size=2, embed_dim=4, depths=[2, 1], num_heads=[2, 2], window_size=4,
        num_labels=3,
    )  # fmt: skip
    return tf.SwinForImageClassification(config)


def convnext(tf):
    config = tf.ConvNextConfig(
        hidden_sizes=[4, 6], depths=[1, 1], num_stages=2, image_size=16, patch_size=2, num_labels=3
    )
    return tf.ConvNextForImageClassification(config)


def resnet(tf):
    config = tf.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1], layer_type="basic", num_labels=3
    )
    return tf.ResNetForImageClassification(config)
