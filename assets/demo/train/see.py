"""Gives the demo model eyes: trains a vision tower of 1.8 million parameters on generated pictures, with the language model as it is.

usage: see.py [--minutes 6.5] [--model ..] --out DIR      (one GPU; on a CPU for a look: --steps 20 --batch 8)

The text model's weights are read and not changed, so its answers about text stay the same, bit for bit; the checksums of its files are printed
before and after.  DIR gets what belongs beside them: model_vision.safetensors, and config.json, index and preprocessor_config.json with the tower.
Pictures are drawn on the device: squares, circles and triangles in eight colours, one to six of them, and words of one to four characters.
Questions are about a colour, a count, a side, a word.  Words and arrangements whose checksum is a multiple of ten are held out.
"""
import argparse
import hashlib
import json
import math
import os
import random
import time
import zlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer

import model

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "model.visual."
TOWER = {"depth": 6, "hidden_size": 128, "hidden_act": "gelu_pytorch_tanh", "intermediate_size": 512, "num_heads": 2, "in_channels": 3, "patch_size": 16,
         "temporal_patch_size": 2, "spatial_merge_size": 2, "num_position_embeddings": 256, "deepstack_visual_indexes": [], "model_type": "qwen3_5_moe"}
LIMITS = {"shortest_edge": 128 * 128, "longest_edge": 512 * 512}        # areas, as published checkpoints have them
SIZES = [(128, 128), (128, 160), (160, 128), (160, 160), (192, 128), (128, 192), (192, 192), (224, 160)]

# ---- the tower: names and arithmetic of the published one ----


def tower_shapes(out):
    h, i = TOWER["hidden_size"], TOWER["intermediate_size"]
    s = {"patch_embed.proj.weight": (h, 3, 2, 16, 16), "patch_embed.proj.bias": (h,), "pos_embed.weight": (TOWER["num_position_embeddings"], h)}
    for n in range(TOWER["depth"]):
        b = f"blocks.{n}."
        s |= {b + "norm1.weight": (h,), b + "norm1.bias": (h,), b + "norm2.weight": (h,), b + "norm2.bias": (h,),
              b + "attn.qkv.weight": (3 * h, h), b + "attn.qkv.bias": (3 * h,), b + "attn.proj.weight": (h, h), b + "attn.proj.bias": (h,),
              b + "mlp.linear_fc1.weight": (i, h), b + "mlp.linear_fc1.bias": (i,), b + "mlp.linear_fc2.weight": (h, i), b + "mlp.linear_fc2.bias": (h,)}
    s |= {"merger.norm.weight": (h,), "merger.norm.bias": (h,), "merger.linear_fc1.weight": (4 * h, 4 * h), "merger.linear_fc1.bias": (4 * h,),
          "merger.linear_fc2.weight": (out, 4 * h), "merger.linear_fc2.bias": (out,)}
    return s


def tower_init(out, seed):
    g = torch.Generator().manual_seed(seed)
    w = {}
    for name, shape in tower_shapes(out).items():
        if "norm" in name:
            w[name] = torch.ones(shape) if name.endswith("weight") else torch.zeros(shape)
        elif name.endswith("bias"):
            w[name] = torch.zeros(shape)
        else:
            std = 0.1 if "pos_embed" in name else 0.7 / math.sqrt(math.prod(shape[1:]))
            if name.endswith(("attn.proj.weight", "mlp.linear_fc2.weight")):
                std /= math.sqrt(2 * TOWER["depth"])
            w[name] = torch.randn(shape, generator=g) * std
    w["merger.linear_fc2.weight"] *= 0.2                  # begins near the size of embeddings
    return w


def places(gh, gw, device):
    """Rows and columns of the patches in the order of blocks of 2 x 2."""
    r, c = torch.meshgrid(torch.arange(gh, device=device), torch.arange(gw, device=device), indexing="ij")
    return [x.view(gh // 2, 2, gw // 2, 2).permute(0, 2, 1, 3).flatten() for x in (r, c)]


def patches(rgb):
    """[b, h, w, 3] bytes -> [b, n, 1536] numbers: channel, frame, y, x"""
    b, h, w, _ = rgb.shape
    x = ((rgb.float() - 127.5) / 127.5).view(b, h // 32, 2, 16, w // 32, 2, 16, 3).permute(0, 1, 4, 2, 5, 7, 3, 6)
    return x.unsqueeze(6).expand(*x.shape[:6], 2, 16, 16).reshape(b, h * w // 256, 1536)


def tower(w, rgb):
    """-> rows of the text model [b, tokens, out]"""
    gh, gw = rgb.shape[1] // 16, rgb.shape[2] // 16
    r, c = places(gh, gw, rgb.device)
    side = int(math.isqrt(TOWER["num_position_embeddings"]))
    table = w["pos_embed.weight"].view(1, side, side, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(table.float(), (gh, gw), mode="bilinear", align_corners=True)[0].permute(1, 2, 0)
    x = F.linear(patches(rgb), w["patch_embed.proj.weight"].flatten(1), w["patch_embed.proj.bias"]) + grid[r, c]
    heads, d = TOWER["num_heads"], TOWER["hidden_size"] // TOWER["num_heads"]
    f = 10000.0 ** (-torch.arange(d // 4, device=rgb.device) * 4 / d)
    angle = torch.cat([r[:, None] * f, c[:, None] * f], -1)
    cos, sin = angle.cos(), angle.sin()

    def turn(a):
        lo, hi = a.float().chunk(2, -1)
        return torch.cat([lo * cos - hi * sin, hi * cos + lo * sin], -1).to(a.dtype)

    def norm(x, p):
        return F.layer_norm(x.float(), x.shape[-1:], w[p + ".weight"], w[p + ".bias"], 1e-6)
    for n in range(TOWER["depth"]):
        b = f"blocks.{n}."
        q, k, v = F.linear(norm(x, b + "norm1"), w[b + "attn.qkv.weight"], w[b + "attn.qkv.bias"]).unflatten(-1, (3, heads, d)).unbind(2)
        o = F.scaled_dot_product_attention(turn(q.transpose(1, 2)), turn(k.transpose(1, 2)), v.transpose(1, 2)).transpose(1, 2).flatten(2)
        x = x + F.linear(o, w[b + "attn.proj.weight"], w[b + "attn.proj.bias"])
        h = F.gelu(F.linear(norm(x, b + "norm2"), w[b + "mlp.linear_fc1.weight"], w[b + "mlp.linear_fc1.bias"]), approximate="tanh")
        x = x + F.linear(h, w[b + "mlp.linear_fc2.weight"], w[b + "mlp.linear_fc2.bias"])
    x = norm(x, "merger.norm").flatten(1).unflatten(1, (-1, 4 * TOWER["hidden_size"]))
    x = F.gelu(F.linear(x, w["merger.linear_fc1.weight"], w["merger.linear_fc1.bias"]))
    return F.linear(x, w["merger.linear_fc2.weight"], w["merger.linear_fc2.bias"])


# ---- the language model with rows of pictures ----

def angles(c, at):
    """at [t, 3]: time, row, column; of the pairs 1, 4, .. 31 turn by the row, 2, 5, .. 29 by the column."""
    half = c.rotary // 2
    i = torch.arange(half, device=at.device)
    axis = torch.where((i % 3 == 1) & (i < 33), 1, torch.where((i % 3 == 2) & (i < 30), 2, 0))
    a = at.double()[:, axis] * c.theta ** (-i.double() / half)
    return a.cos().float()[:, None, :], a.sin().float()[:, None, :]


def hidden(net, w, x, at):
    c = net.c
    cos, sin = angles(c, at)
    for i in range(c.layers):
        p = model.block_weights(w, f"{model.LM}layers.{i}.")
        if c.full[i]:
            x, _, _ = net.attn_layer(x, p, c, cos, sin, None, [])
        else:
            z, *parts = net.before(x, p, c, None)
            x, _ = net.after(x, model.delta_scan(*parts), z, p, c)
    return model.norm(x, w[model.LM + "norm.weight"], c.eps)


def positions(before, h, w, total, device):
    """Of `before` tokens of text, a picture of h x w tokens, and text up to `total`."""
    text = torch.arange(before)
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    seen = torch.stack([torch.zeros(h * w, dtype=torch.long), y.flatten(), x.flatten()], -1) + before
    rest = torch.arange(total - before - h * w) + before + max(h, w)
    return torch.cat([text[:, None].expand(-1, 3), seen, rest[:, None].expand(-1, 3)]).to(device)


# ---- pictures ----

COLOURS = {"red": (220, 30, 30), "green": (30, 160, 50), "blue": (40, 70, 220), "yellow": (240, 210, 20), "black": (15, 15, 15), "orange": (245, 140, 20),
           "purple": (130, 40, 160), "pink": (250, 140, 190)}
SHAPES = ["square", "circle", "triangle"]
BACKGROUNDS = [(255, 255, 255), (245, 245, 235), (225, 230, 235), (235, 225, 210)]
FONT = {                                                  # seven rows of five bits
    "A": "0e11111f111111", "B": "1e11111e11111e", "C": "0e11101010110e", "D": "1e11111111111e", "E": "1f10101e10101f", "F": "1f10101e101010",
    "G": "0e11101711110f", "H": "1111111f111111", "I": "0e04040404040e", "J": "0702020202120c", "K": "11121418141211", "L": "1010101010101f",
    "M": "111b1515111111", "N": "11191513111111", "O": "0e11111111110e", "P": "1e11111e101010", "Q": "0e11111115120d", "R": "1e11111e141211",
    "S": "0f10100e01011e", "T": "1f040404040404", "U": "1111111111110e", "V": "11111111110a04", "W": "11111115151b11", "X": "11110a040a1111",
    "Y": "11110a04040404", "Z": "1f01020408101f", "0": "0e11131519110e", "1": "040c040404040e", "2": "0e11010204081f", "3": "1f02040201110e",
    "4": "02060a121f0202", "5": "1f101e0101110e", "6": "0608101e11110e", "7": "1f010204080808", "8": "0e11110e11110e", "9": "0e11110f01020c"}
GLYPHS = torch.tensor([[[int(FONT[ch][2 * y:2 * y + 2], 16) >> (4 - x) & 1 for x in range(5)] for y in range(7)] for ch in FONT], dtype=torch.bool)
WORDS = "HI NO YES OK CAT DOG SUN SKY CAR BUS RED BLUE TEA MILK FISH BIRD TREE STOP GO EXIT OPEN SALE FREE MENU BANK SHOP TAXI ZOO PARK 2026 42 7 100".split()


def one(colour, shape):
    return f"{'an' if colour == 'orange' else 'a'} {colour} {shape}"


def plural(n, shape):
    return f"There is 1 {shape}." if n == 1 else f"There are {n} {shape}s."


def scene(r):
    """-> what is drawn, question, reasoning, answer, and a text that says whether it is held out"""
    kind = r.random()
    if kind < 0.3:                                        # one shape
        s, col = r.choice(SHAPES), r.choice(list(COLOURS))
        items = [(s, col)]
        q = r.choice([f"What colour is the {s}?", f"What color is the {s}?", f"Which colour does the {s} have?", "What is in the picture?", "What shape is it?"])
        a = f"The {s} is {col}." if "colo" in q else f"A {s}." if "shape" in q else one(col, s).capitalize() + "."
        return items, None, q, f"I see {one(col, s)}.", a, f"{s} {col} {q}"
    if kind < 0.6:                                        # a count
        s, other = r.sample(SHAPES, 2)
        n, m = r.randint(1, 6), r.choice([0, 0, 1, 2])
        n = min(n, 6 - m)
        items = [(s, r.choice(list(COLOURS))) for _ in range(n)] + [(other, r.choice(list(COLOURS))) for _ in range(m)]
        q = r.choice([f"How many {s}s are there?", f"How many {s}s do you see?", f"Count the {s}s."])
        return items, None, q, plural(n, s), plural(n, s), f"{n} {s} {m} {other} {items[0][1]}"
    if kind < 0.8:                                        # left and right
        (s, col), (t, dye) = [(r.choice(SHAPES), c) for c in r.sample(list(COLOURS), 2)]
        side = r.choice(["left", "right"])
        q = r.choice([f"What is on the {side}?", f"Which shape is on the {side}?", f"What do you see on the {side}?"])
        seen = one(col, s) if side == "left" else one(dye, t)
        return [(s, col), (t, dye)], "sides", q, f"On the left is {one(col, s)}, on the right {one(dye, t)}.", f"On the {side} is {seen}.", f"{col} {s} {dye} {t}"
    word = r.choice(WORDS) if r.random() < 0.4 else "".join(r.choice(list(FONT)) for _ in range(r.randint(1, 4)))
    q = r.choice(["What does it say?", "Read the word.", "What is written there?", "Which word do you see?"])
    return [], word, q, f"I read {' '.join(word)}.", f"It says {word}.", f"word {word}"


def scenes(r, n, held_out):
    out = []
    while len(out) < n:
        s = scene(r)
        if (zlib.crc32(s[-1].encode()) % 10 == 0) == held_out:
            out.append(s)
    return out


def draw(r, all_scenes, h, w, device):
    """-> [b, h, w, 3] bytes"""
    b, most = len(all_scenes), 6
    kind, rgb, at, size = torch.full((b, most), -1), torch.zeros(b, most, 3), torch.zeros(b, most, 2), torch.ones(b, most)
    text, place, ink, back = torch.full((b, 4), -1), torch.zeros(b, 3), torch.zeros(b, 3), torch.zeros(b, 3)
    letters = list(FONT)
    for i, (items, what, *_) in enumerate(all_scenes):
        back[i] = torch.tensor(r.choice(BACKGROUNDS), dtype=torch.float)
        cells = r.sample([(y, x) for y in range(2) for x in range(3)], len(items)) if len(items) > 1 else [(0, 0)]
        for k, (s, col) in enumerate(items):
            y, x, ny, nx = (*cells[k], 2, 3) if len(items) > 1 else (0, 0, 1, 1)
            if what == "sides":
                y, x, ny, nx = 0, k, 1, 2
            room = min(h / ny, w / nx) / 2
            size[i, k] = room * r.uniform(0.45, 0.8)
            slack = 0.9 - size[i, k] / room
            at[i, k] = torch.tensor([(y + 0.5) * h / ny + r.uniform(-1, 1) * slack * h / ny / 2, (x + 0.5) * w / nx + r.uniform(-1, 1) * slack * w / nx / 2])
            kind[i, k] = SHAPES.index(s)
            rgb[i, k] = torch.tensor([min(255, max(0, v + r.randint(-12, 12))) for v in COLOURS[col]], dtype=torch.float)
        if not items:
            scale = min(w / (6 * len(what) + 1), h / 9) * r.uniform(0.55, 1)
            place[i] = torch.tensor([r.uniform(scale, h - 8 * scale), r.uniform(scale / 2, w - 6 * len(what) * scale), scale])
            ink[i] = torch.tensor(COLOURS[r.choice(["black", "red", "blue", "green", "purple"])], dtype=torch.float)
            text[i, :len(what)] = torch.tensor([letters.index(ch) for ch in what])
    kind, rgb, at, size, text, place, ink, back = (x.to(device) for x in (kind, rgb, at, size, text, place, ink, back))
    y, x = torch.meshgrid(torch.arange(h, device=device) + 0.5, torch.arange(w, device=device) + 0.5, indexing="ij")
    out = back[:, None, None, :].expand(b, h, w, 3).clone()
    for k in range(most):
        dy, dx = ((y - at[:, k, 0, None, None]) / size[:, k, None, None], (x - at[:, k, 1, None, None]) / size[:, k, None, None])
        inside = torch.stack([(dy.abs() < 0.85) & (dx.abs() < 0.85), dy ** 2 + dx ** 2 < 1, (dy < 0.75) & (dy > -1) & (dx.abs() < (dy + 1) * 0.55)])
        hit = inside.gather(0, kind[:, k].clamp(min=0)[None, :, None, None].expand(1, b, h, w))[0] & (kind[:, k] >= 0)[:, None, None]
        out = torch.where(hit[..., None], rgb[:, k, None, None, :], out)
    v, u = ((y - place[:, 0, None, None]) / place[:, 2, None, None].clamp(min=1), (x - place[:, 1, None, None]) / place[:, 2, None, None].clamp(min=1))
    n, col, line = (u / 6).floor().long(), (u % 6).floor().long(), v.floor().long()
    ch = text.gather(1, n.clamp(0, 3).flatten(1)).view(b, h, w)
    lit = GLYPHS.to(device)[ch.clamp(min=0), line.clamp(0, 6), col.clamp(0, 4)]
    lit &= (n >= 0) & (n < 4) & (ch >= 0) & (line >= 0) & (line < 7) & (col < 5)
    out = torch.where(lit[..., None], ink[:, None, None, :], out)
    return (out + torch.randn_like(out) * 3).clamp(0, 255).to(torch.uint8)


# ---- batches ----

class Ids:
    def __init__(self, tok):
        self.tok = tok
        self.pad = tok.token_to_id("<|image_pad|>")
        self.end = tok.token_to_id("<|im_end|>")
        self.before = self.of("<|im_start|>user\n<|vision_start|>")

    def of(self, text):
        return self.tok.encode(text, add_special_tokens=False).ids

    def prompt(self, question, thinking):
        return self.of(f"<|vision_end|>{question}<|im_end|>\n<|im_start|>assistant\n<think>\n" + ("" if thinking else "\n</think>\n\n"))

    def answer(self, reasoning, answer, thinking):
        return self.of((f"{reasoning}\n</think>\n\n" if thinking else "") + answer + "<|im_end|>")


def embed(w, ids, rows, before):
    x = F.embedding(ids, w[model.LM + "embed_tokens.weight"])
    return torch.cat([x[:, :before], rows.to(x.dtype), x[:, before + rows.shape[1]:]], 1)


def batch(r, ids, n, held_out, device):
    """-> pictures, ids [n, t], weights of the loss [n, t], tokens of the picture, and the scenes"""
    h, w = r.choice(SIZES)
    many, tokens, rows, loss = scenes(r, n, held_out), h * w // 1024, [], []
    for s in many:
        thinking = r.random() < 0.5
        p, a = ids.prompt(s[2], thinking), ids.answer(s[3], s[4], thinking)
        rows.append(ids.before + [ids.pad] * tokens + p + a)
        loss.append([0.0] * (len(rows[-1]) - len(a)) + [1.0] * len(a))
    t = max(len(x) for x in rows)
    x = torch.tensor([x + [ids.end] * (t - len(x)) for x in rows]).to(device)
    y = torch.tensor([x + [0.0] * (t - len(x)) for x in loss]).to(device)
    return draw(r, many, h, w, device), x, y, (h // 32, w // 32), many


def rows_of(tw, pictures):
    """The language model has types of its own: its delta rule must stay in fp32."""
    with torch.autocast(pictures.device.type, torch.bfloat16, enabled=pictures.is_cuda):
        return tower(tw, pictures)


def loss_of(net, w, tw, ids, pictures, x, weight, grid):
    before = len(ids.before)
    rows = rows_of(tw, pictures)
    out = hidden(net, w, embed(w, x, rows, before), positions(before, *grid, x.shape[1], x.device))[:, before + rows.shape[1]:-1]
    target, weight = x[:, before + rows.shape[1] + 1:], weight[:, before + rows.shape[1] + 1:]
    ce = F.cross_entropy(model.head(w, out).float().flatten(0, 1), target.flatten(), reduction="none")
    return (ce * weight.flatten()).sum() / weight.sum()


@torch.no_grad()
def evaluate(net, w, tw, ids, seed, n, device):
    """Share of right greedy answers to held-out pictures, by kind of question, without and with reasoning."""
    r, right, asked, shown = random.Random(seed), {}, {}, []
    for thinking in (False, True):
        for _ in range(max(1, n // 64)):
            h, wide = r.choice(SIZES)
            many, tokens = scenes(r, min(n, 64), True), h * wide // 1024
            rows = rows_of(tw, draw(r, many, h, wide, device))
            prompts = [ids.before + [ids.pad] * tokens + ids.prompt(s[2], thinking) for s in many]
            at, room = torch.tensor([len(p) for p in prompts], device=device), 40
            x = torch.full((len(many), int(at.max()) + room), ids.end, device=device)
            for i, p in enumerate(prompts):
                x[i, :len(p)] = torch.tensor(p)
            done, line = torch.zeros(len(many), dtype=torch.bool, device=device), torch.arange(len(many), device=device)
            pos = positions(len(ids.before), h // 32, wide // 32, x.shape[1], device)
            for _ in range(room):
                pick = model.head(w, hidden(net, w, embed(w, x, rows, len(ids.before)), pos)[line, at - 1]).argmax(-1)
                x[line, at] = torch.where(done, torch.full_like(pick, ids.end), pick)
                done |= pick == ids.end
                at = at + (~done).long()
                if bool(done.all()):
                    break
            for i, s in enumerate(many):
                said = ids.tok.decode(x[i, len(prompts[i]):int(at[i])].tolist(), skip_special_tokens=True)
                said = said.split("</think>")[-1].strip()
                kind = "word" if s[-1].startswith("word") else "count" if "How many" in s[2] or "Count" in s[2] else "side" if s[1] == "sides" else "shape and colour"
                kind += " (thinking)" if thinking else ""
                asked[kind] = asked.get(kind, 0) + 1
                right[kind] = right.get(kind, 0) + (said == s[4])
                if len(shown) < 12:
                    shown.append(f"{s[2]} -> {said!r}, right: {s[4]!r}")
    return {k: (right[k], asked[k]) for k in sorted(asked)}, shown


# ---- files ----

def checksums(path):
    return {f: hashlib.sha256(open(os.path.join(path, f), "rb").read()).hexdigest() for f in sorted(os.listdir(path)) if f.endswith(".safetensors")}


def write(tw, ids, path, out, hidden_size):
    os.makedirs(out, exist_ok=True)
    stored = {PREFIX + k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in tw.items()}
    save_file(stored, os.path.join(out, "model_vision.safetensors"), metadata={"format": "pt"})
    index = json.load(open(os.path.join(path, "model.safetensors.index.json")))
    index["weight_map"] = {k: f for k, f in index["weight_map"].items() if not k.startswith(PREFIX)} | {k: "model_vision.safetensors" for k in stored}
    config = json.load(open(os.path.join(path, "config.json")))
    config |= {"vision_config": dict(TOWER, out_hidden_size=hidden_size), "image_token_id": ids.pad,
               "vision_start_token_id": ids.tok.token_to_id("<|vision_start|>"), "vision_end_token_id": ids.tok.token_to_id("<|vision_end|>")}
    preprocessor = {"size": LIMITS, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                    "processor_class": "Qwen3VLProcessor", "image_processor_type": "Qwen2VLImageProcessorFast"}
    for name, x in (("model.safetensors.index.json", index), ("config.json", config), ("preprocessor_config.json", preprocessor)):
        with open(os.path.join(out, name), "w") as f:
            json.dump(x, f, indent=1)
            f.write("\n")
    return sum(t.numel() * 2 for t in stored.values())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(HERE, ".."))
    p.add_argument("--out", required=True)
    p.add_argument("--minutes", type=float, default=6.5)
    p.add_argument("--steps", type=int, default=0, help="stop after so many steps instead (tests)")
    p.add_argument("--batch", type=int, default=384)
    p.add_argument("--lr", type=float, default=1.5e-3)
    p.add_argument("--tests", type=int, default=512, help="held-out pictures for each way to ask")
    p.add_argument("--seed", default="eyes-1")
    a = p.parse_args()
    begin, before = time.time(), checksums(a.model)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    c = model.load_config(a.model)
    ids = Ids(Tokenizer.from_file(os.path.join(a.model, "tokenizer.json")))
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    w = {k: v.to(device) for k, v in model.effective(model.load(a.model, c), "none", dtype).items()}
    tw = {k: v.to(device).requires_grad_() for k, v in tower_init(c.hidden, 2).items()}
    opt = torch.optim.AdamW(tw.values(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.02, fused=device == "cuda")
    net, r = model.Net(c), random.Random(a.seed)
    print(f"# {sum(v.numel() for v in tw.values()) / 1e6:.2f} M parameters in the tower, {device}, {a.batch} pictures a step", flush=True)
    step, last, total = 0, time.time(), 0.0
    while True:
        share = step / a.steps if a.steps else (time.time() - begin) / (a.minutes * 60)
        if share >= 1:
            break
        for g in opt.param_groups:
            g["lr"] = a.lr * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
        pictures, x, weight, grid, _ = batch(r, ids, a.batch, False, device)
        loss = loss_of(net, w, tw, ids, pictures, x, weight, grid)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(tw.values(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        if step in (1, 10, a.steps) or time.time() - last > 20:
            total = loss.item()
            last = time.time()
            print(f"{last - begin:6.0f} s  step {step:6d}  loss {total:.4f}  |g| {float(norm):.2f}", flush=True)
            if not math.isfinite(total):
                raise SystemExit("the loss is not finite")
    stored = {k: v.detach().to(torch.bfloat16).float() for k, v in tw.items()}          # what the file holds
    results, shown = evaluate(net, w, stored, ids, a.seed + "/test", a.tests, device)
    n = write(tw, ids, a.model, a.out, c.hidden)
    print("\n".join(shown))
    for kind, (good, all_) in results.items():
        print(f"# {kind}: {good} of {all_} right, {100 * good / all_:.1f} %")
    print(f"# {n / 1e6:.2f} MB of weights, {step} steps, {step * a.batch} pictures, {time.time() - begin:.0f} s")
    print("# text model: " + ("its files are the same as before, so are its answers" if checksums(a.model) == before else "ITS FILES HAVE CHANGED"))


if __name__ == "__main__":
    main()
