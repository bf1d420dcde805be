#!/usr/bin/env python3
"""Random conversations through the official template (Jinja2, as transformers runs it) and through `q35chat debug render`.
Needs `pip install jinja2`; not part of `make test`.  Usage, from the top of the repository:
    python3 tests/golden/random_template.py build/q35chat build/data/tokenizer [seed] [conversations]
Ends with 0 if every prompt and every refusal is the same."""
import collections, json, random, subprocess, sys
import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

program, vocabulary = sys.argv[1:3]
R = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
N = int(sys.argv[4]) if len(sys.argv) > 4 else 5000


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
env.filters["tojson"] = lambda x, **_: json.dumps(x, ensure_ascii=False)
env.globals["raise_exception"] = refuse
template = env.from_string(open("tests/data/chat_template/qwen3.5.jinja").read())

WORDS = ["a", "hello ", " b", "\n", "\n\n", " ", "\t", "\r\n", "<think>", "</think>", "\n</think>\n\n", "<think>\n", "<tool_response>", "</tool_response>",
         "<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>", "<|image_pad|>", "\u00a0", "\u0085", "\u3000", "\ufeff", "\u200b", "\u001c", "\u2028",
         "\x0b", "é", "日本", "🙂", "\x00", '"', "\\", "/", "<b>&amp;", '{"a": 1}', "e\u0301", "\u0301", "\x7f", "\u2003"]


def text(n=6):
    return "".join(R.choice(WORDS) for _ in range(R.randint(0, n)))


def scalar():
    return R.choice([0, -1, 5, 10**18, 10**30, -10**25, 1e-7, 1e21, 100000.0, 1e16, 1e15, -0.0, 0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 1e-4, 1e-5,
                     R.random() * 10.0 ** R.randint(-300, 300), 2.0 ** R.randint(-1074, 1023), R.randint(-10**9, 10**9), True, False, None])


def value(depth=0):
    r = R.random()
    if r < .4 or depth > 3:
        return scalar()
    if r < .7:
        return text()
    if r < .85:
        return [value(depth + 1) for _ in range(R.randint(0, 3))]
    return {text(2) or "k": value(depth + 1) for _ in range(R.randint(0, 3))}


def part():
    return R.choice([lambda: {"type": "text", "text": text()}] * 8 + [lambda: R.choice([
        {"type": "image", "image": "x.png"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "video", "video": "x"}, {"type": "image"},
        {"type": "video"}, {"text": text()}, {"image_url": "x", "text": "y"}, {"video": None, "image": None}, {"type": "text", "text": scalar()}, "some text",
        "an image", "plain", ["text"], ["image"], {"type": "audio", "audio": "x"}])] * 4)()


def content():
    r = R.random()
    if r < .6:
        return text()
    if r < .66:
        return R.choice([None, None, 5, 1.5, True, {}, {"a": 1}])
    if r < .9:
        return [part() for _ in range(R.randint(0, 4))]
    return "<tool_response>" + text() + "</tool_response>" if r < .94 else "plain"


def call():
    f = {"name": text(2)}
    if R.random() < .05:
        f["arguments"] = R.choice(["{}", "", None, [], [1], 5])
    elif R.random() < .9:
        f["arguments"] = {text(2): value() for _ in range(R.randint(0, 3))}
    return {"type": "function", "function": f} if R.random() < .8 else f


def message(role=None):
    m = {"role": role or R.choice(["user"] * 5 + ["assistant"] * 5 + ["tool"] * 4 + R.choice([[], [], ["system"], ["developer"]]))}
    if R.random() < .96:
        m["content"] = content()
    if R.random() < .3:
        m["reasoning_content"] = R.choice([text(), text(), "", None, 5])
    if m["role"] == "assistant" and R.random() < .5:
        m["tool_calls"] = [call() for _ in range(R.randint(0, 3))] if R.random() < .9 else R.choice([None, {}, {"a": 1}, False, 5])
    return m


def conversation():
    messages = [message("system")] if R.random() < .3 else []
    messages += [message() for _ in range(R.randint(0, 6))]
    messages += [message("user")] if R.random() < .7 else []
    messages += [message() for _ in range(R.choice([0, 0, 1, 2, 3]))]
    if R.random() < .02:
        messages.append(R.choice([{}, 5, None, "x", {"role": 5}, {"content": "x"}]))
    c = {"messages": messages, "kwargs": {}}
    if R.random() < .3:
        c["tools"] = R.choice([None, [], [{"function": {"name": text(2), "parameters": value()}} for _ in range(R.randint(1, 3))]])
    for key in ("enable_thinking", "add_generation_prompt", "add_vision_id"):
        if R.random() < .6:
            c["kwargs"][key] = R.choice([True, True, False, False, None, 0, 1, "", "x", []])
    return c


def official(c):
    try:
        return {"rendered": template.render(messages=c["messages"], tools=c.get("tools"), **c["kwargs"])}
    except (jinja2.exceptions.TemplateError, TypeError) as e:
        return {"error": str(e)}


conversations = [conversation() for _ in range(N)]
lines = "".join(json.dumps(c) + "\n" for c in conversations)
run = subprocess.run([program, "debug", "render", "--model", vocabulary], input=lines.encode(), stdout=subprocess.PIPE)
answers = [json.loads(line) for line in run.stdout.decode().split("\n")[:-1]]
counts, different = collections.Counter(), int(len(answers) != N)
for c, answer in zip(conversations, answers):
    want, got = official(c), {k: answer[k] for k in ("rendered", "error") if k in answer}
    if want == got or (str(want.get("error", "")).startswith("argument of type") and got.get("error") == "Unexpected item type in content."):
        counts[want.get("error", "rendered")] += 1
    else:
        different += 1
        print(json.dumps(c), "official:", want, "ours:", got, sep="\n   ")
for what, n in counts.most_common():
    print(f"{n:6} {what}")
print(f"{N} conversations, {different} different")
sys.exit(different > 0)
