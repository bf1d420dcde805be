"""Requests as clients of ollama send them, to a server with the demo model; each prints what a test compares.

usage: ollama_asks.py SOCKET NAME      or, with the package ollama: ollama_asks.py 127.0.0.1:PORT package KEY
"""
import base64
import datetime
import http.client
import json
import socket
import sys
import time

SUM = [{"role": "user", "content": "What is 6*7?"}]
CALL = [{"role": "user", "content": "What is 12*12? Use the calculator."}]
CALCULATOR = {"type": "function", "function": {"name": "calculator", "description": "Evaluates an arithmetic expression.", "parameters": {
    "type": "object", "properties": {"expression": {"type": "string", "description": "for example (3 + 4) * 12"}}, "required": ["expression"]}}}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def send(method, path, body=None):
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(sys.argv[1])
    c.request(method, path, json.dumps(body) if body else None)
    return [json.loads(x) for x in c.getresponse().read().decode().split("\n") if x]


def chat(messages=SUM, num_predict=-1, **more):
    body = {"model": "demo:latest", "stream": False, "think": False, "messages": messages, "keep_alive": "5m",
            "options": {"temperature": 0, "num_predict": num_predict, "num_ctx": 4096}, **more}
    return send("POST", "/api/chat", {k: v for k, v in body.items() if v is not None})


def generate(prompt="What is 6*7?", **more):
    return send("POST", "/api/generate", {"model": "demo", "prompt": prompt, "stream": False, "think": False, "options": {"temperature": 0}, **more})


def streamed_call():
    lines = chat(CALL, tools=[CALCULATOR], stream=True)
    return [c["function"]["arguments"] for x in lines for c in x["message"].get("tool_calls", [])] + [lines[-1]["done"]]


def root():
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(sys.argv[1])
    c.request("HEAD", "/")
    head = c.getresponse()
    head.read()
    c.request("GET", "/")
    return head.status, c.getresponse().read().decode().strip()


def first():
    """The first line of a stream comes while the prompt is read, and has no text."""
    found = []
    for path, body in (("/api/chat", {"messages": [{"role": "user", "content": "word " * 1500}]}), ("/api/generate", {"prompt": "words " * 1500})):
        c = http.client.HTTPConnection("localhost")
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.connect(sys.argv[1])
        c.request("POST", path, json.dumps({**body, "model": "demo", "options": {"num_predict": 1}}))
        sent = time.monotonic()
        line = json.loads(c.getresponse().readline())
        found += [line["message"]["content"] if "message" in line else line["response"], line["done"], send("GET", "/health")[0]["running"],
                  time.monotonic() - sent < 4]          # a silent stream has its first line after five seconds
        c.close()
    return found,


def running():
    model = send("GET", "/api/ps")[0]["models"][0]
    left = datetime.datetime.fromisoformat(model.pop("expires_at").replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)
    shown = send("GET", "/api/tags")[0]["models"][0]
    return (*sorted(set(model) - set(shown)), *sorted(set(shown) - set(model)), model["context_length"], model["size"] > shown["size"], model["size_vram"],
            round(left.total_seconds() / 60))


def package(key):
    from ollama import Client

    def calculator(expression: str) -> str:
        """Evaluates an arithmetic expression.

        Args:
            expression: for example (3 + 4) * 12
        """
    c = Client("http://" + sys.argv[1], headers={"Authorization": "Bearer " + key})
    given = {"model": c.list().models[0].model, "think": False, "options": {"temperature": 0}}
    whole, parts = c.chat(messages=SUM, **given), c.chat(messages=SUM, stream=True, **given)
    call = c.chat(messages=CALL, tools=[calculator], **given).message.tool_calls[0].function
    seen = c.chat(messages=[{"role": "user", "content": "What colour is the square?", "images": ["assets/demo/square.png"]}], **given)
    assert c.ps().models[0].context_length == 32768 and c.ps().models[0].expires_at and c.list().models[0].modified_at
    return (given["model"], whole.message.content, "".join(p.message.content for p in parts), whole.done_reason, call.name, *call.arguments,
            seen.message.content, *c.show(given["model"]).capabilities)


def stream():
    lines = chat(stream=None)
    last = lines[-1]
    return ("".join(x["message"]["content"] for x in lines), [x["done"] for x in lines].count(True), last["done"], last["eval_count"] > 3,
            last["prompt_eval_duration"] > 0)


def call():
    called = chat(CALL, tools=[CALCULATOR])[0]["message"]["tool_calls"]
    back = chat([*CALL, {"role": "assistant", "content": "", "tool_calls": called}, {"role": "tool", "content": "144", "tool_name": "calculator"}],
                tools=[CALCULATOR])
    return called[0]["function"]["arguments"], back[0]["message"]["content"]


def square():
    return base64.b64encode(open("assets/demo/square.png", "rb").read()).decode()


def picture():
    return chat([{"role": "user", "content": "What colour is the square?", "images": [square()]}])[0]["message"]["content"],


tests = {
    "whole": lambda: [chat()[0][k] for k in ("done", "done_reason")] + [chat()[0]["message"]["content"]],
    "stream": stream,
    "limit": lambda: [chat(num_predict=2)[0][k] for k in ("done_reason", "eval_count")],
    "thinking": lambda: [len(chat(think=True)[0]["message"]["thinking"]) > 5],
    "call": call,
    "schema": lambda: list(json.loads(chat(format=SCHEMA)[0]["message"]["content"])),
    "json": lambda: [type(json.loads(chat(format="json", num_predict=60)[0]["message"]["content"])).__name__],
    "picture": picture,
    "unknown": lambda: [chat(model="llama3")[0]["error"][:20]],
    "format": lambda: [chat(format="xml")[0]["error"]],
    "role": lambda: [chat([*SUM, {"role": "robot", "content": "x"}])[0]["error"][:11]],
    "tags": lambda: [send("GET", "/api/tags")[0]["models"][0]["name"]],
    "show": lambda: send("POST", "/api/show", {"model": "demo"})[0]["capabilities"],
    "streamed_call": streamed_call,
    "generate": lambda: [generate()[0]["response"], generate(images=[square()], prompt="What colour is the square?")[0]["response"]],
    "lines": lambda: ["".join(x["response"] for x in generate(stream=True)), generate(stream=True)[-1]["done_reason"]],
    "raw": lambda: [generate("<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", raw=True)[0]["response"]],
    "nothing": lambda: [generate("")[0]["done_reason"], chat([])[0]["done_reason"]],
    "another": lambda: [send("POST", "/api/show", {"model": m})[0].get("error", "known")[:21] for m in ("demo:latest", "llama3", 5)],
    "root": root,
    "embed": lambda: [send("POST", "/api/embed", {"model": "demo", "input": "x"})[0]["error"][:39]],
    "package": package,
    "first": first,
    "running": running,
}
print(*tests[sys.argv[2]](*sys.argv[3:]))
