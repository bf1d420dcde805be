"""Trains the demo model's byte-pair vocabulary and writes it with the family's split pattern, control tokens and file layout.

usage: tokenizer.py FAMILY_DIR TEMPLATE.jinja TEXT.xz OUT_DIR
FAMILY_DIR holds Qwen3.5's tokenizer.json(.xz) and tokenizer_config.json, of which only the pattern and the added tokens are used.
"""
import itertools
import json
import lzma
import os
import shutil
import sys

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import data

VOCAB = 4096
NOTICE = ("This is a small demo model. For a real one, run: q35chat model get\n"
          "Try: What is 17 + 25?  Tell me a joke.  Give me a JSON object with name Ann\n")


def family(path):
    packed = os.path.join(path, "tokenizer.json.xz")
    with lzma.open(packed, "rt", encoding="utf-8") if os.path.exists(packed) else open(os.path.join(path, "tokenizer.json"), encoding="utf-8") as f:
        return json.load(f), json.load(open(os.path.join(path, "tokenizer_config.json"), encoding="utf-8"))


def corpus(world):
    """Dialogues without the control tokens, and the definitions."""
    docs = itertools.islice(data.pieces("tokenizer", world, False), 40000)
    controls = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    for d in docs:
        text = "".join(t for t, _ in d).replace(data.TOOL_TEXT, "")
        for c in controls:
            text = text.replace(c, "\x00")
        yield from (t for t in text.split("\x00") if t)
    yield from [data.TOOL_TEXT] * 50
    yield from world["plain"][::2]


def main(family_dir, template, text, out):
    real, config = family(family_dir)
    added = {int(k): v for k, v in config["added_tokens_decoder"].items()}
    assert len(added) == 33 and all(added[t["id"]]["content"] == t["content"] and added[t["id"]]["special"] == t["special"] for t in real["added_tokens"])
    pattern = real["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    from tokenizers import Regex
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    n = VOCAB - len(added)
    world = data.load_world(text)
    tok.train_from_iterator(corpus(world), trainers.BpeTrainer(vocab_size=n, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(tok.to_str())["model"]
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    # ids as in the family's file: the 256 bytes, then the merges in order
    order = [c for c, i in sorted(real["model"]["vocab"].items(), key=lambda x: x[1])[:256]]
    vocab = {c: i for i, c in enumerate(order)}
    for m in merges:
        vocab.setdefault(m.replace(" ", ""), len(vocab))
    assert len(vocab) == n == len(merges) + 256, (len(vocab), n, len(merges))
    renumber = {old: n + i for i, old in enumerate(sorted(added))}
    real["model"]["vocab"], real["model"]["merges"] = vocab, merges
    real["added_tokens"] = [dict(id=renumber[k], content=v["content"], single_word=False, lstrip=False, rstrip=False, normalized=False, special=v["special"]) for k, v in sorted(added.items())]
    config["added_tokens_decoder"] = {str(renumber[k]): v for k, v in sorted(added.items())}
    shutil.copyfile(template, os.path.join(out, "chat_template.jinja"))
    config["chat_template"] = open(template, encoding="utf-8").read()

    def save(name, x, **kw):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            json.dump(x, f, ensure_ascii=False, **kw)
            f.write("\n")
    save("tokenizer.json", real, indent=1)
    save("tokenizer_config.json", config, indent=1)
    ids = {v["content"]: renumber[k] for k, v in added.items()}
    save("generation_config.json", {"bos_token_id": ids["<|endoftext|>"], "do_sample": True, "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"], "temperature": 0.6, "top_k": 20, "top_p": 0.95}, indent=1)
    with open(os.path.join(out, "notice.txt"), "w", encoding="utf-8") as f:
        f.write(NOTICE)
    again = Tokenizer.from_file(os.path.join(out, "tokenizer.json"))
    sample = "<|im_start|>user\nWhat is 17 + 25? สวัสดี naïve 🙂<|im_end|>\n<think>\n"
    e = again.encode(sample, add_special_tokens=False)
    assert again.decode(e.ids, skip_special_tokens=False) == sample
    print(f"{n} ordinary + {len(added)} added tokens; {len(sample)} characters -> {len(e.ids)} tokens: {e.tokens}")


if __name__ == "__main__":
    main(*sys.argv[1:])
