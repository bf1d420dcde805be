#!/usr/bin/env python3
"""Writes tests/data/golden/yarn.json with Hugging Face transformers in fp32: rotary frequencies stretched by YaRN, and logits of the small checkpoint
g0/bf16 as if it had been trained on few positions.

usage: yarn.py > tests/data/golden/yarn.json         needs torch, transformers, safetensors; not part of `make test`
"""
import json

import torch
import transformers
from safetensors.torch import load_file
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

DIR = "tests/data/model/g0/bf16"
FACTORS = (2.0, 4.0, 3.85)               # those of --ctx; one that a config.json may have
STRETCHED = ((96, 2.0), (64, 4.0))       # trained positions, factor
ROWS = (40, 100, 129)


def yarn_config(config, original, factor):
    rope = {**config["rope_parameters"], "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    return Qwen3_5MoeTextConfig(**{**config, "rope_parameters": rope, "max_position_embeddings": int(original * factor)})


def frequencies(config, factor):
    freq, scale = ROPE_INIT_FUNCTIONS["yarn"](yarn_config(config, 262144, factor), "cpu")
    return {"factor": factor, "attention_factor": scale, "inv_freq": freq.tolist()}


def logits(config, weights, ids, original, factor):
    model = Qwen3_5MoeForCausalLM(yarn_config(config, original, factor)).float().eval()
    model.load_state_dict(weights)
    with torch.no_grad():
        got = model(ids[None]).logits[0]
    return {"original": original, "factor": factor, "rows": list(ROWS), "logits": [[float(f"{x:.7g}") for x in got[r].tolist()] for r in ROWS]}


def main():
    with open(f"{DIR}/config.json") as f:
        config = json.load(f)["text_config"]
    with open(f"{DIR}/model.safetensors.index.json") as f:
        shard_of = json.load(f)["weight_map"]
    shards = {s: load_file(f"{DIR}/{s}") for s in set(shard_of.values())}
    weights = {n.replace("model.language_model.", "model."): shards[s][n].float() for n, s in shard_of.items() if n.startswith(("model.language_model.", "lm_head."))}
    ids = load_file(f"{DIR}/expected.safetensors")["prompt5.ids"].long()
    print(json.dumps({
        "source": f"transformers {transformers.__version__} (Apache-2.0), torch {torch.__version__.split('+')[0]}: tests/golden/yarn.py",
        "frequencies": [frequencies(config, f) for f in FACTORS],
        "stretched": [logits(config, weights, ids, *s) for s in STRETCHED],
    }, separators=(",", ":")).replace("},{", "},\n{").replace("],[", "],\n["))


if __name__ == "__main__":
    main()
