#!/usr/bin/env python3
"""Random small models of unusual geometry: `q35chat debug logits` against Hugging Face transformers (5.17) in fp32.

usage: random_model.py build/q35chat [SEED]        needs torch, transformers, safetensors; not part of `make test`
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

BOUND = 2e-3
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10], "mrope_interleaved": True}
BASE = dict(vocab_size=300, hidden_size=128, num_attention_heads=4, num_key_value_heads=2, head_dim=256, linear_num_key_heads=1,
            linear_num_value_heads=2, linear_key_head_dim=128, linear_value_head_dim=128, num_experts=8, num_experts_per_tok=4,
            moe_intermediate_size=128, shared_expert_intermediate_size=128, num_hidden_layers=4,
            layer_types=["linear_attention"] * 3 + ["full_attention"], rope_parameters=PLAIN_ROPE, max_position_embeddings=262144)
CASES = {
    "yarn": dict(rope_parameters={**PLAIN_ROPE, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}),
    "odd sizes": dict(hidden_size=96, num_attention_heads=6, num_key_value_heads=3, head_dim=64, linear_num_key_heads=2, linear_num_value_heads=6,
                      linear_key_head_dim=64, linear_value_head_dim=64, num_experts=10, num_experts_per_tok=3, moe_intermediate_size=56,
                      shared_expert_intermediate_size=72, num_hidden_layers=6, layer_types=["linear_attention", "linear_attention", "full_attention"] * 2,
                      rope_parameters={**PLAIN_ROPE, "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [6, 5, 5]}),
    "fp32 weights": dict(),
    "narrow keys": dict(linear_key_head_dim=32, linear_num_value_heads=4),
}


def random_model(over, bf16):
    model = Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**{**BASE, **over})).float().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim >= 2:
                p.copy_(torch.randn_like(p) * 0.7 / p.shape[-1] ** 0.5)
            elif "A_log" in name:
                p.uniform_(-1, 1)
            else:
                p.normal_(0, 0.2)
            if bf16:
                p.copy_(p.bfloat16().float())
    return model


def main():
    program = os.path.abspath(sys.argv[1])
    torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    failed = 0
    for name, over in CASES.items():
        bf16 = name != "fp32 weights"
        model = random_model(over, bf16)
        prompts = [torch.randint(0, 300, (n,)) for n in (1, 5, 64, 150)]
        with torch.no_grad():
            want = [model(p[None]).logits[0] for p in prompts]
        with tempfile.TemporaryDirectory() as d:
            tensors = {k.replace("model.", "model.language_model.", 1): (p.bfloat16() if bf16 and "A_log" not in k else p.clone()) for k, p in model.state_dict().items()}
            save_file({k: t.contiguous() for k, t in tensors.items()}, f"{d}/model.safetensors")
            with open(f"{d}/config.json", "w") as f:
                json.dump({"architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": json.loads(model.config.to_json_string())}, f)
            lines = "".join(json.dumps({"ids": p.tolist()}) + "\n" for p in prompts)
            for how in ([], ["--chunk", "37"], ["--step"]):
                subprocess.run([program, "debug", "logits", "--model", d, "--out", f"{d}/out", *how], input=lines.encode(), stdout=subprocess.DEVNULL, check=True)
                got = load_file(f"{d}/out")
                worst = max((got[f"logits.{i}"] - w).abs().max().item() for i, w in enumerate(want))
                failed += not worst <= BOUND
                print(f"{name:14} {' '.join(how):12} max |logit - transformers| {worst:.1e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
