"""The demo model as a text model in bf16, for programs that read no INT4 checkpoint:  python3 tests/remote/bf16.py FROM TO

Needs torch and safetensors.  INT4: groups of 128 along the inputs, eight values of a word, 8 is zero.  FP8: a scale for each block of 128 x 128.
"""
import glob
import json
import os
import shutil
import sys

import torch
from safetensors import safe_open
from safetensors.torch import save_file

source, target = sys.argv[1:3]
stored = {}
for name in glob.glob(os.path.join(source, "*.safetensors")):
    with safe_open(name, "pt") as f:
        stored.update({k: f.get_tensor(k) for k in f.keys() if not k.startswith("mtp.")})


def unpacked(name):
    words, scales = stored[name + ".qweight"], stored[name + ".scales"]
    nibbles = (words[:, None, :] >> torch.arange(0, 32, 4)[None, :, None]) & 15
    values = nibbles.reshape(-1, words.shape[1]).float() - 8
    return (values * scales.float().repeat_interleave(128, 0)).T


def scaled(weight, blocks):
    wide = blocks.float().repeat_interleave(128, 0).repeat_interleave(128, 1)
    return weight.float() * wide[:weight.shape[0], :weight.shape[1]]


plain = {}
for key, value in stored.items():
    name, last = key.rsplit(".", 1)
    if last == "qweight":
        plain[name + ".weight"] = unpacked(name)
    elif last == "weight" and key + "_scale_inv" in stored:
        plain[key] = scaled(value, stored[key + "_scale_inv"])
    elif last not in ("qzeros", "scales", "weight_scale_inv"):
        plain[key] = value
config = json.load(open(os.path.join(source, "config.json")))["text_config"]
config.update(architectures=["Qwen3_5MoeForCausalLM"], dtype="bfloat16", mtp_num_hidden_layers=0)
for layer in range(config["num_hidden_layers"]):
    experts = "model.language_model.layers.%d.mlp.experts." % layer
    take = lambda what: torch.stack([plain.pop("%s%d.%s.weight" % (experts, i, what)) for i in range(config["num_experts"])])
    plain[experts + "gate_up_proj"] = torch.cat([take("gate_proj"), take("up_proj")], 1)
    plain[experts + "down_proj"] = take("down_proj")
os.makedirs(target, exist_ok=True)
named = {k.replace("model.language_model.", "model."): v.bfloat16().contiguous() for k, v in plain.items()}
save_file(named, os.path.join(target, "model.safetensors"), {"format": "pt"})
json.dump(config, open(os.path.join(target, "config.json"), "w"))
for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
    shutil.copy(os.path.join(source, name), target)
