"""Tiny causal language models and a tokenizer of words for them, made on the spot."""

import torch

from helpers.transformers_models import SIZES, imported

WORDS = (
    "the a cat dog bird sat ran flew on under over mat tree sky and then it was red blue".split()
)
CONTEXT = 16


def tokenizer(begin=False):
    """Splits at spaces; with `begin`, a token stands before every text."""
    tf, kit = imported("transformers"), imported("tokenizers")
    names = {word: i for i, word in enumerate(["<pad>", "<s>", "<unk>", *WORDS])}
    made = kit.Tokenizer(kit.models.WordLevel(names, unk_token="<unk>"))
    made.pre_tokenizer = kit.pre_tokenizers.Whitespace()
    if begin:
        made.post_processor = kit.processors.TemplateProcessing("<s> $A", None, [("<s>", 1)])
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", unk_token="<unk>"
    )


def gpt2(rows=None, **sizes):
    tf = imported("transformers")
    config = tf.GPT2Config(
        **{"n_embd": 8, "n_layer": 2, "n_head": 2, **sizes}, vocab_size=rows or len(WORDS) + 3,
        n_positions=CONTEXT,
        bos_token_id=1, eos_token_id=1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return tf.GPT2LMHeadModel(config)


def llama(tied=False):
    tf = imported("transformers")
    config = tf.LlamaConfig(
        **SIZES, vocab_size=len(WORDS) + 3, num_key_value_heads=1, pad_token_id=0, bos_token_id=1,
        eos_token_id=1, max_position_embeddings=CONTEXT, tie_word_embeddings=tied,
    )  # fmt: skip
    return tf.LlamaForCausalLM(config)


def sentences(n=12, seed=0, shortest=3, longest=7):
    """Random words, of different lengths."""
    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (), generator=generator))

    return [
        " ".join(WORDS[number(0, len(WORDS))] for _ in range(number(shortest, longest + 1)))
        for _ in range(n)
    ]


def train(model, tokenizer, texts, steps=60, lr=1e-2):
    """Adam on the mean loss over the tokens of all texts."""
    rows = [torch.tensor(ids) for ids in tokenizer(texts)["input_ids"]]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(ids.shape[1]) < torch.tensor([len(r) for r in rows])[:, None]
    labels = ids.masked_fill(~mask, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    for _ in range(steps):
        logits = model(input_ids=ids, attention_mask=mask.long()).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
