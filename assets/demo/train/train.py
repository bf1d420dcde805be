"""Trains the demo model within a time budget: fresh dialogues from worker processes, one row shape, AdamW, the learning rate driven by the clock.

`--minutes 9 --schedule-start 0 --schedule-end 0.5` then `--resume STATE --schedule-start 0.5` splits one schedule over two calls.
From `--qat` on, weights are rounded as the hybrid layout stores them (straight-through), so that what is saved is what was trained.
"""
import argparse
import math
import multiprocessing
import os
import time
import zlib

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import data
import model

CLASS_WEIGHT = torch.tensor([0.0, 0.05, 1.0, 0.4, 0.5])  # pad, prompt, output, plain text, earlier answers
DRAFT_WEIGHT = (0.3, 0.2, 0.15)
PIECE_BYTES = 15 << 20


# ---- data from other processes ----

def worker(seed, n, text, tokenizer, held_out, queue):
    stream = data.blocks(seed, n, data.load_world(text), Tokenizer.from_file(tokenizer), held_out)
    while True:
        queue.put(next(stream))


class Loader:
    """Batches of rows, drawn from all workers in turn, so that a seed always gives the same order."""

    def __init__(self, a):
        ctx = multiprocessing.get_context("fork")
        self.queues = [ctx.Queue(maxsize=3) for _ in range(a.workers)]
        self.workers = [ctx.Process(target=worker, args=(a.seed, i, a.text, a.tokenizer, False, q), daemon=True) for i, q in enumerate(self.queues)]
        for w in self.workers:
            w.start()
        self.rng = np.random.default_rng(zlib.crc32(a.seed.encode()))
        self.next, self.rows, self.pool, self.at = 0, a.rows, None, 0

    def refill(self):
        parts = []
        for _ in range(max(4, len(self.queues) // 2)):
            parts.append(self.queues[self.next].get())
            self.next = (self.next + 1) % len(self.queues)
        pool = [np.concatenate([p[k] for p in parts]) for k in range(3)]
        order = self.rng.permutation(len(pool[0]))
        self.pool, self.at = [p[order] for p in pool], 0

    def batch(self, device):
        while self.pool is None or self.at + self.rows > len(self.pool[0]):
            self.refill()
        out = [torch.from_numpy(p[self.at:self.at + self.rows].astype(np.int64)) for p in self.pool]
        self.at += self.rows
        return [(x.pin_memory() if device == "cuda" else x).to(device, non_blocking=True) for x in out]

    def close(self):
        for w in self.workers:
            w.terminate()


# ---- losses ----

def shifted(x, by):
    return F.pad(x, (0, by))[:, by:]


def cross_entropy(w, hidden, target, weight):
    """Weighted mean, and the sums of hits for reporting."""
    logits = model.head(w, hidden).float().flatten(0, 1)
    ce = F.cross_entropy(logits, target.flatten(), reduction="none")
    weight = weight.flatten()
    hit = (logits.argmax(-1) == target.flatten()).float()
    return (ce * weight).sum() / weight.sum().clamp(min=1), hit


def losses(net, w, ids, cls, doc, class_weight, draft_rows):
    """-> main loss, drafts' losses, load balancing, hits of the main model"""
    def target(by, rows=None):
        same = shifted(doc, by) == doc
        wt = class_weight[shifted(cls, by)] * same
        return shifted(ids, by)[:rows], wt[:rows]
    hidden, aux = net.forward(w, ids, doc)
    main, hit = cross_entropy(w, hidden, *target(1))
    drafts = []
    if draft_rows:
        for d, h in enumerate(net.drafts(w, ids[:draft_rows], hidden[:draft_rows], 3, doc[:draft_rows])):
            drafts.append(cross_entropy(w, h, *target(d + 2, draft_rows)))
    return main, drafts, aux, hit


@torch.no_grad()
def held_out(net, weights, layout, dtype, rows, class_weight):
    """Losses on the model's own part of held-out dialogues, and how often drafts hit the written token."""
    w = model.effective(weights, layout, dtype)
    only = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0], device=class_weight.device)
    main, drafts, _, hit = losses(net, w, *rows, only, len(rows[0]))
    out, chain = {"loss": main.item()}, None
    ids, cls, doc = rows
    for d, (l, h) in enumerate(drafts):
        out[f"draft{d + 1}"] = l.item()
        chain = h if chain is None else chain * h
        m = (only[shifted(cls, d + 2)] * (shifted(doc, d + 2) == doc)).flatten()
        out[f"hit{d + 1}"] = ((chain * m).sum() / m.sum()).item()
    return out


# ---- checkpoints ----

def save_pieces(weights, path):
    """bf16 copy (A_log and gated norm fp32) in files under 16 MiB: what travels home if the machine is lost."""
    part, size, parts = {}, 0, []
    for name, t in weights.items():
        t = t.detach().cpu()
        t = t.clone() if name.endswith(("A_log", "linear_attn.norm.weight")) else t.to(torch.bfloat16)
        n = t.numel() * t.element_size()
        if part and size + n > PIECE_BYTES:
            parts.append(part)
            part, size = {}, 0
        part[name] = t.contiguous()
        size += n
    for i, p in enumerate(parts + [part]):
        tmp = os.path.join(path, f".ckpt-{i}.tmp")
        save_file(p, tmp)
        os.replace(tmp, os.path.join(path, f"ckpt-{i}.safetensors"))


def load_pieces(path):
    out = {}
    for f in sorted(os.listdir(path)):
        if f.startswith("ckpt-"):
            out.update(load_file(os.path.join(path, f)))
    assert out, f"no ckpt-*.safetensors in {path}"
    return {k: v.float() for k, v in out.items()}


def save_state(path, weights, opt, steps, tokens, progress, cfg):
    tmp = path + ".tmp"
    torch.save({"weights": {k: v.detach() for k, v in weights.items()}, "opt": opt.state_dict(), "steps": steps, "tokens": tokens, "progress": progress, "config": cfg}, tmp)
    os.replace(tmp, path)


# ---- the run ----

def rate(progress, lr):
    return lr * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(progress, 1))))


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=9, help="training time of this call, compilation included")
    p.add_argument("--schedule-start", type=float, default=None, help="default: where the resumed state stopped, else 0")
    p.add_argument("--schedule-end", type=float, default=1.0)
    p.add_argument("--qat", type=float, default=0.7, help="share of the schedule after which weights are rounded")
    p.add_argument("--out", required=True, help="log and bf16 pieces")
    p.add_argument("--state", default="/tmp/demo-state.pt", help="full resume state: weights and optimizer")
    p.add_argument("--resume", help="a state file, or a folder with ckpt-*.safetensors")
    p.add_argument("--text", default=os.path.join(data.HERE, "text.xz"))
    p.add_argument("--tokenizer", default=os.path.join(data.HERE, "..", "tokenizer.json"))
    p.add_argument("--rows", type=int, default=48, help="rows of 1536 tokens a step")
    p.add_argument("--draft-share", type=float, default=0.4, help="share of the rows that also train the MTP block")
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--decay", type=float, default=0.1)
    p.add_argument("--aux", type=float, default=0.005)
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 3))
    p.add_argument("--seed", default="demo-1")
    p.add_argument("--steps", type=int, default=0, help="stop after so many steps (tests)")
    p.add_argument("--tiny", action="store_true", help="a much smaller network (tests on a CPU)")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--tf32", action="store_true", help="let the fp32 delta rule use TF32")
    return p.parse_args()


def main():
    a = arguments()
    os.makedirs(a.out, exist_ok=True)
    log_file = open(os.path.join(a.out, "train.log"), "a")

    def log(s):
        print(s, flush=True)
        log_file.write(s + "\n")
        log_file.flush()

    begin = time.time()
    loader = Loader(a)                                    # forks: before CUDA starts
    world, tok = data.load_world(a.text), Tokenizer.from_file(a.tokenizer)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16
    torch.set_float32_matmul_precision("high" if a.tf32 else "highest")
    text = model.text_config(hidden=128, layers=4, experts=4, top_k=2) if a.tiny else model.text_config()
    c = model.Config(text)
    if a.resume and os.path.isdir(a.resume):
        weights = load_pieces(a.resume)
    elif a.resume:
        state = torch.load(a.resume, map_location="cpu", weights_only=True)
        weights = state["weights"]
    else:
        weights = model.init(c, 1)
    weights = {k: v.to(device).requires_grad_() for k, v in weights.items()}
    decayed = [w for n, w in weights.items() if w.ndim >= 2 and "conv1d" not in n]
    plain = [w for n, w in weights.items() if not (w.ndim >= 2 and "conv1d" not in n)]
    opt = torch.optim.AdamW([{"params": decayed, "weight_decay": a.decay}, {"params": plain, "weight_decay": 0.0}], lr=a.lr, betas=(0.9, 0.95), eps=1e-9, fused=device == "cuda")
    steps = tokens = 0
    start = a.schedule_start or 0.0
    if a.resume and not os.path.isdir(a.resume):
        opt.load_state_dict(state["opt"])
        steps, tokens = state["steps"], state["tokens"]
        start = state["progress"] if a.schedule_start is None else a.schedule_start
    elif a.resume and a.schedule_start is None:
        raise SystemExit("--resume from a folder needs --schedule-start")
    class_weight = CLASS_WEIGHT.to(device)
    stream = data.blocks(a.seed, 0, world, tok, True, n_docs=300)
    test = [torch.from_numpy(x[:24].astype(np.int64)).to(device) for x in next(stream)]
    draft_rows = max(1, int(a.rows * a.draft_share))
    net = model.Net(c, compiled=not a.no_compile)
    plain_net = model.Net(c)
    n_main = sum(w.numel() for n, w in weights.items() if not n.startswith("mtp."))
    log(f"# {n_main / 1e6:.2f} M parameters + {sum(w.numel() for w in weights.values()) / 1e6 - n_main / 1e6:.2f} M in the MTP block, {device}, {a.rows} x {data.ROW} tokens a step, {a.workers} data processes, schedule {start:.3f} to {a.schedule_end}")

    def step_once(layout, batch):
        w = model.effective(weights, layout, dtype)
        main, drafts, aux, _ = losses(net, w, *batch, class_weight, draft_rows)
        total = main + a.aux * aux + sum(k * l for k, (l, _) in zip(DRAFT_WEIGHT, drafts))
        total.backward()
        return torch.stack([main.detach(), *(l.detach() for l, _ in drafts), aux.detach()])

    if not a.no_compile:
        t = time.time()
        try:
            step_once("none", loader.batch(device))
            log(f"# compiled in {time.time() - t:.0f} s")
        except Exception as e:                            # compilation is a luxury: go on without
            log(f"# compilation failed, going on without: {str(e)[:300]}")
            net = model.Net(c)
        opt.zero_grad(set_to_none=True)

    first, last_log, last_eval, last_save = steps, time.time(), time.time(), time.time()
    seen = tokens
    sums, n_sums, warm = 0, 0, 0
    budget = a.minutes * 60
    while True:
        share = (time.time() - begin) / budget
        if share >= 1 or (a.steps and steps - first >= a.steps):
            break
        progress = start + (a.schedule_end - start) * min(share, 1)
        if a.steps:
            progress = (steps - first) / a.steps
        warm += 1
        lr = rate(progress, a.lr) * min(1, warm / (200 if not a.resume else 50))
        for g in opt.param_groups:
            g["lr"] = lr
        layout = "hybrid" if progress >= a.qat else "none"
        batch = loader.batch(device)
        sums = sums + step_once(layout, batch)
        n_sums += 1
        norm = torch.nn.utils.clip_grad_norm_(list(weights.values()), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        steps += 1
        tokens += batch[0].numel()
        now = time.time()
        if now - last_log > 30 or steps - first in (1, 10) or (a.steps and steps - first == a.steps):
            s = (sums / n_sums).tolist()                  # waits for the device
            now = time.time()
            log(f"{now - begin:6.0f} s  {progress:.3f}  step {steps:6d}  {tokens / 1e6:7.1f} Mtok  {(tokens - seen) / max(now - last_log, 1e-3) / 1e3:6.0f} ktok/s  lr {lr:.2e}  |g| {float(norm):.2f}  "
                f"loss {s[0]:.4f}  drafts {' '.join(f'{x:.4f}' for x in s[1:-1])}  balance {s[-1]:.3f}  {layout}")
            if not math.isfinite(s[0]):
                raise SystemExit("the loss is not finite")
            last_log, seen, sums, n_sums = now, tokens, 0, 0
        if now - last_eval > 60:
            h = held_out(plain_net, weights, layout, dtype, test, class_weight)
            log("          held out: " + "  ".join(f"{k} {v:.4f}" for k, v in h.items()))
            last_eval = time.time()
        if now - last_save > 120:
            save_state(a.state, weights, opt, steps, tokens, progress, text)
            save_pieces(weights, a.out)
            last_save = time.time()
    progress = a.schedule_end
    loader.close()
    save_state(a.state, weights, opt, steps, tokens, progress, text)
    save_pieces(weights, a.out)
    for layout in ("none", "hybrid"):
        h = held_out(plain_net, weights, layout, dtype, test, class_weight)
        log(f"# {time.time() - begin:.0f} s, {tokens / 1e6:.1f} Mtok, {layout}: " + "  ".join(f"{k} {v:.4f}" for k, v in h.items()))
    if device == "cuda":
        log(f"# {torch.cuda.max_memory_allocated() / 2 ** 30:.1f} GiB of device memory at most")


if __name__ == "__main__":
    main()
