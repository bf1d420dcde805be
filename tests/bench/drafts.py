#!/usr/bin/env python3
"""How many drafts are right with each storage format of the MTP block: ten questions, and 48 tokens each from places of
docs/*.md that are equally far apart, 64 tokens of answer, three drafts a step.  A table on stdout.

    BUILD=build python3 tests/bench/drafts.py [PLACES [FORMAT...]]

PLACES is 300, formats are bf16, fp8 and int4.  MODEL=DIR is another model than the demo.  Answers must be the same."""
import glob
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("BUILD", "build") + "/q35chat"
MODEL = os.environ.get("MODEL", "assets/demo")
DRAFTS, TOKENS, LENGTH = 3, 64, 48
QUESTIONS = [
    "Hello, who are you?", "What is 4821 + 3799?", "Give me a JSON object with the name Ann, the age 31 and the city Oslo.",
    "Tell me a story of a river.", "Write a list of three colours.", "What is the capital of France?", "Spell window.",
    "Count from 1 to 20.", "What does memory mean?", "Repeat after me: red blue red blue red blue",
]


def ask(command, lines, *more):
    r = subprocess.run([PROGRAM, "debug", command, "--model", MODEL, *more], input="".join(json.dumps(x) + "\n" for x in lines),
                       stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(x) for x in r.stdout.splitlines()]


places = int(sys.argv[1]) if len(sys.argv) > 1 else 300
prompts = [x["ids"] for x in ask("render", [{"messages": [{"role": "user", "content": q}]} for q in QUESTIONS])]
text = ask("tokenize", [{"text": "".join(open(f, encoding="utf-8").read() for f in sorted(glob.glob("docs/*.md")))}])[0]["ids"]
for i in range(places):
    at = i * (len(text) - LENGTH) // places
    prompts.append(text[at:at + LENGTH])

first = None
print("format  steps  first  second  third  all %  tokens/step")
for form in sys.argv[2:] or ["bf16", "fp8", "int4"]:
    answers = ask("generate", [{"ids": p, "max_tokens": TOKENS, "draft": DRAFTS} for p in prompts], "--head", "int8", "--mtp", form)
    ids, steps = [a["ids"] for a in answers], sum(a["steps"] for a in answers)
    right = [sum(a["accepted"][i] for a in answers) for i in range(DRAFTS)]
    print(f"{form:6} {steps:6}" + "".join(f"{100 * n / steps:7.1f}" for n in right)
          + f"{100 * sum(right) / steps / DRAFTS:7.1f}{sum(map(len, ids)) / steps:13.3f}", flush=True)
    first = first or ids
    if ids != first:
        sys.exit(f"{form}: other answers than those of the first format")
