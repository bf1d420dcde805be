"""Held-out loss per layout, acceptance of the MTP drafts, and behaviour of greedy answers on dialogues that training never saw.

usage: evaluate.py CKPT_DIR [--out FILE.json]
"""
import argparse
import json
import os
import time
from collections import defaultdict
from itertools import islice

import numpy as np
import torch
from tokenizers import Tokenizer

import data
import model
import train

PROBES = ["Hello", "hi", "hello there", "hey!", "test", "testing 1 2 3", "Who are you?", "who made you?", "what model are you?", "are you ChatGPT?", "are you Qwen?", "what can you do?", "help", "tell me about yourself", "how old are you", "what's your name?",
          "do you speak German?", "How are you?", "write a haiku", "write a poem", "tell me a story", "Tell me a joke", "what is the weather", "who is the president of France", "write hello world in C", "write hello world in Python", "a loop in bash",
          "list three colours", "List 4 animals", "explain recursion", "what is 2+2", "2+2=?", "What is 17 + 25?", "17+25", "What is 348 + 277?", "what is 9 * 7", "What is 47 * 36?", "How much is 905 - 468?", "what's the square of 12", "is 7 a prime number?",
          "is 91 prime?", "what day comes after Friday", "convert 5 km to m", "how many days are in May", "What is the capital of France?", "Opposite of hot?", "I am sad", "I like pizza", "good night", "?", "...", "ok", "shit", "asdf",
          "Give me a JSON object with name Ann and age 31", "Give me a JSON array with the numbers 1 to 5", "Valid JSON only: a person with name Tom, age 40 and is student false", "Ann is 31 and lives in Oslo. JSON with keys: name (string), age (number)",
          "Spell banana", "Spell keyboard", "Reverse the word lamp", "How many r's are in strawberry?", "How many letters are in window?", "Who invented the telephone?", "How do I quit?", "Thanks!", "Bye", "Count to 7",
          "Ann has 12 apples and gets 7 more. How many apples does Ann have?", "I have 20 cookies and eat 6. How many are left?", "A train has 40 people. 12 get off. How many people are left?"]
TOOL_PROBES = ["What time is it?", "What time is it in Tokyo?", "What is 1234 * 56?", "2+2", "Hello", "What is (3 + 4) * 12?", "What is 2.5 * 4?", "What is 12 * 12 and what is 7 + 8?", "What year will it be in 10 years?", "write a haiku", "What is my name?", "?"]
# the last question of a conversation whose first turns are given: (user, answer), a call is (user, name, arguments, result, answer)
TALKS = [
    [("My name is Ann.", "Hello Ann! How can I help you?"), ("What is 12 * 12?", "12 * 12 = 144."), "What is my name?"],
    [("My name is Ann.", "Hello Ann! How can I help you?"), ("What is 12 * 12?", "calculator", {"expression": "12 * 12"}, "144", "12 * 12 = 144."), ("Tell me a joke", "Why was the computer cold? It left its Windows open."), "What is my name?"],
    [("My name is Ann.", "Hello Ann! How can I help you?"), ("My favourite food is soup", "Soup sounds good."), ("Actually my name is Tom", "Thank you for the correction. Your name is Tom."), ("Spell cat", "c-a-t."), "What is my name?"],
    [("Hi", "Hello! How can I help you?"), ("I live in Oslo", "Oslo is a nice place, I think."), ("What is the capital of Italy?", "The capital of Italy is Rome."), "Where do I live?"],
    [("Hi", "Hello! How can I help you?"), ("What is 3 + 4?", "3 + 4 = 7."), "What is my name?"],
]


def talk(turns, thinking, tools):
    msgs = []
    for t in turns[:-1]:
        msgs.append({"role": "user", "content": t[0]})
        if len(t) == 5 and tools:
            msgs += [{"role": "assistant", "reasoning": "", "content": "", "calls": [{"name": t[1], "arguments": t[2]}]}, {"role": "tool", "content": t[3]}]
        msgs.append({"role": "assistant", "reasoning": "", "content": t[-1]})
    d = probe(turns[-1], thinking, tools)
    return dict(d, messages=msgs + d["messages"])


def probe(text, thinking, tools=()):
    return {"system": None, "tools": list(tools), "thinking": thinking, "messages": [{"role": "user", "content": text}, {"role": "assistant", "reasoning": "", "content": ""}], "check": {"kind": "probe"}}


@torch.no_grad()
def greedy(c, w, prompts, stop, new, device, rows):
    """Greedy continuations; batches of similar length, every row fed its prompt and then its own tokens."""
    out, stops = [None] * len(prompts), stop.tolist()
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    for at in range(0, len(order), rows):
        part = order[at:at + rows]
        length = torch.tensor([len(prompts[i]) for i in part], device=device)
        room = int(length.max()) + new
        ids = torch.zeros(len(part), room, dtype=torch.long)
        for r, i in enumerate(part):
            ids[r, :len(prompts[i])] = torch.tensor(prompts[i])
        ids = ids.to(device)
        dec = model.Decoder(c, w, len(part), room)
        done = torch.zeros(len(part), dtype=torch.bool, device=device)
        for t in range(room - 1):
            pick = dec.step(ids[:, t]).argmax(-1)
            writes = (t + 1 >= length) & ~done & (t + 1 < length + new)
            ids[:, t + 1] = torch.where(writes, pick, ids[:, t + 1])
            done |= writes & torch.isin(pick, stop)
            if t % 16 == 0 and bool((done | (t + 1 >= length + new)).all()):
                break
        for r, i in enumerate(part):
            row = ids[r, len(prompts[i]):len(prompts[i]) + new].tolist()
            end = next((k for k, x in enumerate(row) if x in stops), len(row) - 1)
            out[i] = row[:end + 1]
    return out


@torch.no_grad()
def acceptance(net, w, prompts, outs, device, rows):
    """Of all places where the model wrote a token, how often draft 1, drafts 1-2, drafts 1-3 equal what it wrote next."""
    right, total = [0] * 3, [0] * 3
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]) + len(outs[i]))
    for at in range(0, len(order), rows):
        part = order[at:at + rows]
        n = max(len(prompts[i]) + len(outs[i]) for i in part)
        ids, wrote = torch.zeros(len(part), n, dtype=torch.long), torch.zeros(len(part), n, dtype=torch.bool)
        for r, i in enumerate(part):
            ids[r, :len(prompts[i]) + len(outs[i])] = torch.tensor(prompts[i] + outs[i])
            wrote[r, len(prompts[i]):len(prompts[i]) + len(outs[i])] = True
        ids, wrote = ids.to(device), wrote.to(device)
        hidden, _ = net.forward(w, ids)
        chain = torch.ones_like(wrote)
        for d, h in enumerate(net.drafts(w, ids, hidden, 3)):
            hit = model.head(w, h).argmax(-1) == train.shifted(ids, d + 2)
            chain = chain & hit
            counts = train.shifted(wrote.long(), 1).bool() & train.shifted(wrote.long(), d + 2).bool()
            right[d] += int((chain & counts).sum())
            total[d] += int(counts.sum())
    return [x / max(n, 1) for x, n in zip(right, total)]


def judge(d, text):
    """Does the answer do what was asked?  -> dictionary of tests"""
    check = d["check"]
    want = data.prompt_of(d)[1].replace("<|im_end|>", "")
    tidy = text.endswith("<|im_end|>")
    text = text.replace("<|im_end|>", "")
    if d["thinking"]:
        want, (reason, mark, text) = want.split("</think>\n\n", 1)[1], text.partition("</think>\n\n")
        tidy = tidy and bool(mark) and bool(reason.strip())
    kind = check["kind"]
    if "call" in check:
        return {"format": tidy, "right": tidy and text == want}
    if kind == "json":
        try:
            value = json.loads(text)
        except ValueError:
            return {"format": False, "right": False}
        return {"format": tidy, "right": value == json.loads(check["answer"])}
    if kind == "talk":
        answers = data.INTENTS[check["intent"]][1]
        return {"format": tidy, "right": tidy and (text in answers or text in [a.upper() for a in answers])}
    if kind == "small_talk":                              # several answers are fine
        return {"format": tidy, "right": tidy and bool(text.strip())}
    if kind == "unknown":
        return {"format": tidy, "right": tidy and text.lower() in [u.lower() for u in data.UNKNOWN]}
    return {"format": tidy, "right": tidy and text.split("\n")[-1] == want.split("\n")[-1]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ckpt")
    p.add_argument("--out", default="evaluation.json")
    p.add_argument("--text", default=os.path.join(data.HERE, "text.xz"))
    p.add_argument("--tokenizer", default=os.path.join(data.HERE, "..", "tokenizer.json"))
    p.add_argument("--n", type=int, default=2500, help="held-out dialogues to answer")
    p.add_argument("--test-rows", type=int, default=128, help="rows of 1536 tokens for the losses")
    p.add_argument("--new", type=int, default=320)
    p.add_argument("--batch", type=int, default=384)
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    t0 = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    c = model.Config(model.text_config(hidden=128, layers=4, experts=4, top_k=2) if a.tiny else model.text_config())
    weights = {k: v.to(device) for k, v in train.load_pieces(a.ckpt).items()}
    world, tok = data.load_world(a.text), Tokenizer.from_file(a.tokenizer)
    net = model.Net(c)
    report = {"held_out": {}}

    ids, cls, doc = (x[:a.test_rows] for x in next(data.blocks("evaluate", 0, world, tok, True, n_docs=max(40, a.test_rows * 8))))
    only = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0], device=device)
    print(f"{'layout':18s} {'loss':>8s} {'draft 1':>8s} {'draft 2':>8s} {'draft 3':>8s}   (nats per token the model has to write, {int((cls == data.OUTPUT).sum())} tokens of held-out dialogues)")
    for name in ("bf16", "int4", "hybrid", "hybrid + INT8 head"):
        w = model.effective(weights, name.split()[0])
        if "INT8" in name:
            w["lm_head.weight"] = model.int8_rows(w["lm_head.weight"])
        sums = np.zeros(4)
        parts = 0
        for at in range(0, len(ids), 16):
            rows = [torch.from_numpy(x[at:at + 16].astype(np.int64)).to(device) for x in (ids, cls, doc)]
            n = int((rows[1] == data.OUTPUT).sum())
            with torch.no_grad():
                main_loss, drafts, _, _ = train.losses(net, w, *rows, only, len(rows[0]))
            sums += n * np.array([main_loss.item()] + [l.item() for l, _ in drafts])
            parts += n
        report["held_out"][name] = dict(zip(("loss", "draft1", "draft2", "draft3"), (sums / parts).tolist()))
        print(f"{name:18s} " + " ".join(f"{x:8.4f}" for x in sums / parts), flush=True)

    dialogues = list(islice(data.documents("evaluate/answers", world, True), a.n))
    both = [data.CLOCK, data.CALCULATOR]
    probes = [probe(t, th) for t in PROBES for th in (True, False)] + [probe(t, th, both) for t in TOOL_PROBES for th in (True, False)]
    probes += [talk(t, th, tools) for t in TALKS for th in (True, False) for tools in ((), both)]
    prompts = [tok.encode(data.prompt_of(d)[0], add_special_tokens=False).ids for d in dialogues + probes]
    stop = torch.tensor([tok.token_to_id("<|im_end|>"), tok.token_to_id("<|endoftext|>")], device=device)
    outs = greedy(c, w, prompts, stop, a.new, device, a.batch)            # hybrid weights with the INT8 head: what the program runs
    texts = [tok.decode(o, skip_special_tokens=False) for o in outs]
    report["acceptance"] = acceptance(net, w, prompts[:a.n], outs[:a.n], device, 24)
    print("acceptance of drafts 1, 1-2, 1-3 on greedy answers: " + " / ".join(f"{100 * x:.1f} %" for x in report["acceptance"]))

    groups = defaultdict(lambda: [0, 0, 0])
    for d, text in zip(dialogues, texts):
        j = judge(d, text)
        k = d["check"]["kind"]
        keys = [k, "all", "thinking" if d["thinking"] else "no thinking"]
        if d["check"]["turns"] >= 6:
            keys += ["6 turns and more", "6 turns and more, " + ("tools" if d["tools"] else "no tools")]
        if k == "recall":
            far = d["check"]["distance"]
            keys.append("recall, told " + ("1 turn before" if far == 1 else "2 to 4 turns before" if far < 5 else "5 turns before and more"))
        if k in ("word_problem", "recall", "spell", "reverse"):
            keys.append(f"{k}, {'thinking' if d['thinking'] else 'no thinking'}")
        if k == "sum":
            keys.append(f"sum {d['check']['op']} {d['check']['digits']} digits, {'thinking' if d['thinking'] else 'no thinking'}")
        for key in keys:
            g = groups[key]
            g[0] += 1
            g[1] += j["format"]
            g[2] += j["right"]
    print(f"{'answers (hybrid + INT8 head)':40s} {'n':>5s} {'tidy':>7s} {'right':>7s}")
    for k in sorted(groups):
        n, f, r = groups[k]
        print(f"{k:40s} {n:5d} {100 * f / n:6.1f}% {100 * r / n:6.1f}%")
    report["answers"] = {k: {"n": n, "tidy": f / n, "right": r / n} for k, (n, f, r) in sorted(groups.items())}
    wrong = [(d, t) for d, t in zip(dialogues, texts) if not judge(d, t)["right"]][:60]
    report["wrong"] = [{"prompt": data.prompt_of(d)[0].split("<|im_start|>user\n")[-1], "want": data.prompt_of(d)[1], "got": t} for d, t in wrong]
    report["probes"] = [{"user": " | ".join(m["content"] for m in d["messages"] if m["role"] == "user"), "tools": bool(d["tools"]), "thinking": d["thinking"], "got": t} for d, t in zip(probes, texts[a.n:])]
    for x in report["probes"]:
        print(f"[{'thinking' if x['thinking'] else 'plain'}{', tools' if x['tools'] else ''}] {x['user']!r} -> {x['got']!r}")
    report["seconds"] = time.time() - t0
    print(f"{report['seconds']:.0f} s")
    with open(a.out, "w") as f:
        json.dump(report, f, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
