"""Architectures of the `transformers` package with tiny configurations and random weights: nothing is downloaded."""

import functools
import importlib

import torch

from zoo.training import Training

TOKENS, LENGTH, BATCH = 97, 16, 2

SPECIAL = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)

# The names of configuration options differ by family.
LLAMA = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
BERT = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4)
GPT2 = dict(n_embd=48, n_layer=2, n_head=4, n_positions=LENGTH)
OPT = dict(hidden_size=48, word_embed_proj_dim=48, ffn_dim=96, num_hidden_layers=2, num_attention_heads=4)
DISTILBERT = dict(dim=48, hidden_dim=96, n_layers=2, n_heads=4)
T5 = dict(d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, decoder_start_token_id=0)
BART = dict(d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=96, decoder_ffn_dim=96)


def tokens():
    """The input is also the target: a causal model shifts it by one."""
    drawn = torch.randint(3, TOKENS, (BATCH, LENGTH))  # the first three are special in some models
    return drawn, drawn


def translation():
    return torch.randint(3, TOKENS, (BATCH, LENGTH)), torch.randint(3, TOKENS, (BATCH, LENGTH // 2))


def sounds():
    return torch.randn(BATCH, 16, 40), torch.randint(3, TOKENS, (BATCH, LENGTH // 2))


def images():
    return torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))


def build(model, config, sizes):
    package = importlib.import_module("transformers")
    return getattr(package, model)(getattr(package, config)(**sizes))


def text_loss(model, tokens, labels):
    return model(input_ids=tokens, labels=labels).loss


def sound_loss(model, features, labels):
    return model(input_features=features, labels=labels).loss


def image_loss(model, images, labels):
    return model(pixel_values=images, labels=labels).loss


def text(model, config, sizes, batch=tokens, loss=text_loss):
    sizes = dict(sizes, vocab_size=TOKENS, max_position_embeddings=64)
    return Training(model, functools.partial(build, model, config, sizes), batch, loss)


def image(model, config, sizes):
    sizes = dict(sizes, num_labels=10)
    return Training(model, functools.partial(build, model, config, sizes), images, image_loss)


PUBLISHED = (
    text("GPT2LMHeadModel", "GPT2Config", GPT2),
    text("LlamaForCausalLM", "LlamaConfig", LLAMA),
    text("MistralForCausalLM", "MistralConfig", LLAMA),
    text("Qwen2ForCausalLM", "Qwen2Config", LLAMA),
    text("GemmaForCausalLM", "GemmaConfig", dict(LLAMA, head_dim=12)),
    text("OPTForCausalLM", "OPTConfig", OPT),
    text("GPTNeoXForCausalLM", "GPTNeoXConfig", BERT),
    text("Phi3ForCausalLM", "Phi3Config", dict(LLAMA, pad_token_id=0)),
    text("Gemma2ForCausalLM", "Gemma2Config", dict(LLAMA, head_dim=12, sliding_window=8)),
    text("FalconForCausalLM", "FalconConfig", BERT),
    text("BloomForCausalLM", "BloomConfig", dict(hidden_size=48, n_layer=2, n_head=4)),
    text("MambaForCausalLM", "MambaConfig", dict(hidden_size=32, num_hidden_layers=2, state_size=8)),
    text("MixtralForCausalLM", "MixtralConfig", dict(LLAMA, num_local_experts=4)),
    text("Qwen3MoeForCausalLM", "Qwen3MoeConfig",
         dict(LLAMA, head_dim=12, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)),
    text("BertForMaskedLM", "BertConfig", BERT),
    text("RobertaForMaskedLM", "RobertaConfig", BERT),
    text("DistilBertForMaskedLM", "DistilBertConfig", DISTILBERT),
    text("AlbertForMaskedLM", "AlbertConfig", dict(BERT, embedding_size=24)),
    text("ElectraForMaskedLM", "ElectraConfig", dict(BERT, embedding_size=24)),
    text("DebertaV2ForMaskedLM", "DebertaV2Config",
         dict(BERT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8)),
    text("T5ForConditionalGeneration", "T5Config", T5, translation),
    text("BartForConditionalGeneration", "BartConfig", BART, translation),
    text("WhisperForConditionalGeneration", "WhisperConfig",
         dict(BART, **SPECIAL, num_mel_bins=16, max_source_positions=20, max_target_positions=20), sounds, sound_loss),
    image("ViTForImageClassification", "ViTConfig", dict(BERT, image_size=32, patch_size=8)),
    image("ConvNextForImageClassification", "ConvNextConfig",
          dict(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 2, 1], drop_path_rate=0.1)),
    image("ResNetForImageClassification", "ResNetConfig",
          dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])),
    image("SwinForImageClassification", "SwinConfig",
          dict(image_size=32, patch_size=2, embed_dim=16, depths=[1, 2], num_heads=[2, 4], window_size=4)),
)
