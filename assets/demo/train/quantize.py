"""Writes a trained checkpoint in a published layout (bf16, int4, hybrid) and reads it back: every weight must come out as the rounded one.

usage: quantize.py CKPT_DIR OUT_DIR [--layout hybrid]
"""
import argparse
import json
import os

import torch
from safetensors.torch import save_file

import model
from train import load_pieces

SHARD = 8 << 20


def packed_int4(name, w):
    """auto_gptq: eight codes a word, lowest bits first, along the input; zeros stored minus one."""
    q, scale = model.int4_codes(w)
    q = q.flatten(-2).T.to(torch.int64)                                 # [in, out]
    words = sum(q[j::8] << (4 * j) for j in range(8))
    words = torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
    groups, out = q.shape[0] // 128, q.shape[1]
    return {name + ".qweight": words.contiguous(), name + ".qzeros": torch.full((groups, out // 8), 0x77777777, dtype=torch.int32), name + ".scales": scale.T.contiguous()}


def split_experts(name, w):
    """A fused expert tensor as the per-expert matrices of the quantised releases."""
    base, half = name.rsplit(".", 1)[0], w.shape[1] // 2
    for e in range(w.shape[0]):
        if name.endswith("gate_up_proj"):
            yield f"{base}.{e}.gate_proj", w[e, :half]
            yield f"{base}.{e}.up_proj", w[e, half:]
        else:
            yield f"{base}.{e}.down_proj", w[e]


def stored(weights, layout):
    """-> {tensor name: tensor} as the files hold them"""
    out = {}
    for name, w in weights.items():
        fused = ".experts." in name
        if layout == "bf16" and fused:
            out[name] = w.to(torch.bfloat16)
        elif layout != "bf16" and (fused or model.is_int4(name)):
            for n, m in split_experts(name, w) if fused else [(name[:-7], w)]:
                out.update(packed_int4(n, m) if model.is_int4(name) else {n + ".weight": m.to(torch.bfloat16).contiguous()})
        elif layout == "hybrid" and model.is_fp8(name):
            q, scale = model.fp8_codes(w)
            out[name], out[name + "_scale_inv"] = q, scale
        elif name.endswith(("A_log", "linear_attn.norm.weight")):
            out[name] = w.float()
        else:
            out[name] = w.to(torch.bfloat16)
    return out


def config(text, layout):
    out = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "model_type": "qwen3_5_moe", "tie_word_embeddings": False, "text_config": text}
    if layout != "bf16":
        pinned = [f"{model.LM}layers.{i}.mlp.{m}" for i in range(text["num_hidden_layers"]) for m in ("shared_expert.gate_proj", "shared_expert.up_proj", "shared_expert.down_proj", "shared_expert_gate")]
        pinned += [f"{model.LM}layers.{i}.linear_attn.{m}" for i, t in enumerate(text["layer_types"]) if t == "linear_attention" for m in ("in_proj_a", "in_proj_b")]
        out["quantization_config"] = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "data_type": "int", "packing_format": "auto_round:auto_gptq",
                                      "block_name_to_quantize": "model.language_model.layers", "extra_config": {p: {"bits": 16, "data_type": "float"} for p in pinned}}
    return out


def write(weights, text, layout, path):
    os.makedirs(path, exist_ok=True)
    for f in os.listdir(path):
        if f.endswith(".safetensors"):
            os.remove(os.path.join(path, f))
    tensors = stored(weights, layout)
    shards, extra, size = [{}], {}, 0
    for name, t in tensors.items():
        if layout != "bf16" and name.startswith("mtp."):
            extra[name] = t
            continue
        n = t.numel() * t.element_size()
        if shards[-1] and size + n > SHARD:
            shards.append({})
            size = 0
        shards[-1][name] = t
        size += n
    files = {f"model-{i + 1:05}-of-{len(shards):05}.safetensors": s for i, s in enumerate(shards)}
    if extra:
        files["model_extra_tensors.safetensors"] = extra
    for f, s in files.items():
        save_file({k: v.contiguous().cpu() for k, v in s.items()}, os.path.join(path, f), metadata={"format": "pt"})
        os.chmod(os.path.join(path, f), 0o644)
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": {k: f for f, s in files.items() for k in s}}
    for name, x in (("model.safetensors.index.json", index), ("config.json", config(text, layout))):
        with open(os.path.join(path, name), "w") as f:
            json.dump(x, f, indent=1)
            f.write("\n")
    return total


def verify(weights, layout, path):
    c = model.load_config(path)
    again = model.load(path, c)
    for name, w in weights.items():
        want = model.rounded(name, w, layout)
        assert torch.equal(again[name], want), f"{name}: {(again[name] - want).abs().max()} off after reading back"
    ids = torch.arange(100)[None] * 37 % c.vocab
    with torch.no_grad():
        net = model.Net(c)
        a = model.head(again, net.forward(again, ids)[0])
        w = model.effective(weights, layout)
        b = model.head(w, net.forward(w, ids)[0])
    assert (a - b).abs().max() < 1e-3
    print(f"{path}: {layout}, {len(weights)} tensors read back equal, logits differ by at most {(a - b).abs().max():.1e}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ckpt")
    p.add_argument("out")
    p.add_argument("--layout", default="hybrid", choices=("bf16", "int4", "hybrid"))
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    text = model.text_config(hidden=128, layers=4, experts=4, top_k=2) if a.tiny else model.text_config()
    weights = load_pieces(a.ckpt)
    total = write(weights, text, a.layout, a.out)
    verify(weights, a.layout, a.out)
    print(f"{total} bytes of tensors; folder: {sum(os.path.getsize(os.path.join(a.out, f)) for f in os.listdir(a.out) if os.path.isfile(os.path.join(a.out, f)))} bytes")


if __name__ == "__main__":
    main()
