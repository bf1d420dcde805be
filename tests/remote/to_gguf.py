"""The demo model as a GGUF file in fp32, for llama.cpp:  python3 tests/remote/to_gguf.py FROM TO

Needs the Python packages numpy and gguf.  What llama.cpp stores otherwise than transformers (its architecture qwen35moe): value heads of
DeltaNet lie by their place behind a key head and not by key head, norms have 1 added (but that of DeltaNet's output), A_log is -exp of it,
and experts lie in one tensor.
"""
import glob
import json
import os
import struct
import sys

import gguf
import numpy as np

source, target = sys.argv[1:3]
config = json.load(open(os.path.join(source, "config.json")))["text_config"]
stored = {}
for name in glob.glob(os.path.join(source, "*.safetensors")):
    data = np.memmap(name, np.uint8, "r")
    size = struct.unpack("<Q", data[:8])[0]
    for key, entry in json.loads(bytes(data[8:8 + size])).items():
        if key != "__metadata__" and not key.startswith("mtp."):
            first, last = entry["data_offsets"]
            stored[key] = (entry["dtype"], entry["shape"], data[8 + size + first:8 + size + last])


def fp8(codes):
    sign, exponent, fraction = codes >> 7, codes >> 3 & 15, codes & 7
    value = np.where(exponent > 0, np.ldexp(1 + fraction / 8, exponent.astype(int) - 7), np.ldexp(fraction / 8, -6))
    return np.where(sign, -value, value).astype(np.float32)


def raw(key):
    dtype, shape, data = stored[key]
    if dtype == "BF16":
        values = (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    elif dtype == "F8_E4M3":
        values = fp8(np.array(data))
    else:
        values = data.view({"F32": np.float32, "F16": np.float16, "I32": np.int32}[dtype])
    return values.reshape(shape)


def weight(name):
    """[outputs, inputs] in fp32.  INT4: groups of 128 inputs, eight values a word, 8 is zero.  FP8: a scale for each block of 128 x 128."""
    if name + ".qweight" in stored:
        words, scales = raw(name + ".qweight").view(np.uint32), raw(name + ".scales").astype(np.float32)
        codes = words[:, None, :] >> np.arange(0, 32, 4, dtype=np.uint32)[None, :, None] & 15
        return ((codes.reshape(-1, words.shape[1]).astype(np.float32) - 8) * scales.repeat(128, 0)).T
    values = raw(name + ".weight").astype(np.float32)
    if name + ".weight_scale_inv" in stored:
        values = values * raw(name + ".weight_scale_inv").repeat(128, 0).repeat(128, 1)[:values.shape[0], :values.shape[1]]
    return values


keys, heads, width = config["linear_num_key_heads"], config["linear_num_value_heads"], config["linear_value_head_dim"]
order = np.arange(heads).reshape(keys, heads // keys).T.ravel()


def reordered(values, width=1):
    """Along the first axis, heads of `width` rows each."""
    return values.reshape(heads, width, *values.shape[1:])[order].reshape(values.shape)


def behind_keys(values):
    n = 2 * keys * config["linear_key_head_dim"]
    return np.concatenate([values[:n], reordered(values[n:], width)])


out = gguf.GGUFWriter(target, "qwen35moe")
add = lambda name, values: out.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))
add("token_embd.weight", weight("model.language_model.embed_tokens"))
add("output_norm.weight", weight("model.language_model.norm") + 1)
add("output.weight", weight("lm_head"))
for i, kind in enumerate(config["layer_types"]):
    layer, to = f"model.language_model.layers.{i}.", f"blk.{i}."
    add(to + "attn_norm.weight", weight(layer + "input_layernorm") + 1)
    add(to + "post_attention_norm.weight", weight(layer + "post_attention_layernorm") + 1)
    if kind == "full_attention":
        for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output")):
            add(f"{to}attn_{theirs}.weight", weight(f"{layer}self_attn.{ours}_proj"))
        add(to + "attn_q_norm.weight", weight(layer + "self_attn.q_norm") + 1)
        add(to + "attn_k_norm.weight", weight(layer + "self_attn.k_norm") + 1)
    else:
        delta = layer + "linear_attn."
        add(to + "attn_qkv.weight", behind_keys(weight(delta + "in_proj_qkv")))
        add(to + "attn_gate.weight", reordered(weight(delta + "in_proj_z"), width))
        add(to + "ssm_alpha.weight", reordered(weight(delta + "in_proj_a")))
        add(to + "ssm_beta.weight", reordered(weight(delta + "in_proj_b")))
        add(to + "ssm_a", reordered(-np.exp(raw(delta + "A_log"))))
        add(to + "ssm_dt.bias", reordered(raw(delta + "dt_bias")))
        add(to + "ssm_conv1d.weight", behind_keys(raw(delta + "conv1d.weight")[:, 0]))
        add(to + "ssm_norm.weight", weight(delta + "norm"))
        add(to + "ssm_out.weight", reordered(weight(delta + "out_proj").T, width).T)
    add(to + "ffn_gate_inp.weight", weight(layer + "mlp.gate"))
    add(to + "ffn_gate_inp_shexp.weight", weight(layer + "mlp.shared_expert_gate")[0])
    for part in ("gate", "up", "down"):
        add(f"{to}ffn_{part}_shexp.weight", weight(f"{layer}mlp.shared_expert.{part}_proj"))
        add(f"{to}ffn_{part}_exps.weight", np.stack([weight(f"{layer}mlp.experts.{e}.{part}_proj") for e in range(config["num_experts"])]))

out.add_name("demo")
out.add_block_count(config["num_hidden_layers"])
out.add_context_length(config["max_position_embeddings"])
out.add_embedding_length(config["hidden_size"])
out.add_head_count(config["num_attention_heads"])
out.add_head_count_kv(config["num_key_value_heads"])
out.add_key_length(config["head_dim"])
out.add_value_length(config["head_dim"])
out.add_layer_norm_rms_eps(config["rms_norm_eps"])
rope = config["rope_parameters"]
out.add_rope_freq_base(rope["rope_theta"])
out.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
out.add_rope_dimension_sections(rope["mrope_section"] + [0])
out.add_expert_count(config["num_experts"])
out.add_expert_used_count(config["num_experts_per_tok"])
out.add_expert_feed_forward_length(config["moe_intermediate_size"])
out.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
out.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
out.add_ssm_state_size(config["linear_key_head_dim"])
out.add_ssm_group_count(keys)
out.add_ssm_time_step_rank(heads)
out.add_ssm_inner_size(heads * width)
out.add_full_attention_interval(config["full_attention_interval"])

words = json.load(open(os.path.join(source, "tokenizer.json")))
ends = json.load(open(os.path.join(source, "generation_config.json")))["eos_token_id"]
added = {a["id"]: a for a in words["added_tokens"]}
tokens = {i: t for t, i in words["model"]["vocab"].items()} | {i: a["content"] for i, a in added.items()}
kinds = [gguf.TokenType.NORMAL if i not in added else gguf.TokenType.CONTROL if added[i]["special"] else gguf.TokenType.USER_DEFINED for i in range(len(tokens))]
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("qwen35")
out.add_token_list([tokens[i] for i in range(len(tokens))])
out.add_token_types(kinds)
out.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in words["model"]["merges"]])
out.add_eos_token_id(ends[0])
out.add_pad_token_id(ends[1])
out.add_add_bos_token(False)
out.add_chat_template(open(os.path.join(source, "chat_template.jinja")).read())
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
