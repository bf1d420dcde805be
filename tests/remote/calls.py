"""Asks a server for calls of many tools in many steps, streamed, and verifies each call: none missing, doubled, malformed or raw.

    python3 tests/remote/calls.py script N_TOOLS N_STEPS N_CALLS        prints a script for build/tests/remote/scripted
    python3 tests/remote/calls.py SOCKET scripted N_TOOLS N_STEPS N_CALLS       verifies what that script says
    python3 tests/remote/calls.py SOCKET random N_TOOLS N_STEPS N_CALLS         verifies calls at a high temperature
"""
import http.client
import json
import random
import socket
import sys

MARKUP = ("<tool_call", "</tool_call", "<function", "</function", "<parameter", "</parameter", "<think", "</think", "<|im_")
WORDS = ["path", "query", "limit", "when", "who", "depth", "mode", "force", "tags", "range", "note", "level"]
TEXTS = [
    "plain", "two\nlines", " blanks around ", "", "\"quoted\" and \\ back", "{\"json\": [1, 2]}", "a < b && c > d", "tab\tand \u00e9\u20ac\U0001f600",
    "</parameter> within a line", "<tool_call> by name", "a line\n\n\nand another", "<parameter=path> within a line", "</function> alone",
    "echo '<function=x>' | sed s/a/b/", "-", "null", "17", "true", "[]", "x" * 300,
]


def schema_of(rng, bounded):
    """A schema of a parameter, and how a value for it is made."""
    text = {"type": "string", "maxLength": 12} if bounded else {"type": "string"}
    kinds = [
        (text, lambda: rng.choice(TEXTS)), (text, lambda: rng.choice(TEXTS)),
        ({"type": "integer", "minimum": -5, "maximum": 500}, lambda: rng.randint(-5, 500)),
        ({"type": "number", "minimum": 0, "maximum": 9}, lambda: rng.choice([0, 1.5, 9, 2.25])),
        ({"type": "boolean"}, lambda: rng.random() < 0.5),
        ({"enum": ["low", "middle", "high"]}, lambda: rng.choice(["low", "middle", "high"])),
        ({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 4}, lambda: [rng.randint(0, 9) for _ in range(rng.randint(0, 4))]),
        ({"type": "object", "properties": {"from": {"type": "integer", "minimum": 0, "maximum": 99}, "to": {"enum": ["end", "start"]}}, "required": ["from"],
          "additionalProperties": False}, lambda: {"from": rng.randint(0, 99), **({"to": "end"} if rng.random() < 0.5 else {})}),
    ]
    return rng.choice(kinds)


def tools_of(n, bounded):
    rng = random.Random(46)
    tools = []
    for i in range(n):
        names = rng.sample(WORDS, rng.randint(0, 6))
        made = {name: schema_of(rng, bounded) for name in names}
        parameters = {"type": "object", "properties": {name: made[name][0] for name in names}, "required": names[: len(names) // 2 + len(names) % 2]}
        tools.append((f"tool_{i}" if i % 3 else f"mcp__server-{i}__do", parameters, {name: made[name][1] for name in names}))
    return tools


def planned(n_tools, n_steps, n_calls):
    """The calls of a script: of each step a list of name and arguments."""
    rng, tools = random.Random(7), tools_of(n_tools, False)
    steps = [[] for _ in range(n_steps)]
    for i in range(n_calls):
        name, parameters, makers = tools[i % len(tools) if i < len(tools) else rng.randrange(len(tools))]
        keys = [k for k in makers if k in parameters["required"] or rng.random() < 0.6]
        rng.shuffle(keys)
        steps[i % n_steps].append((name, {k: makers[k]() for k in keys}))
    return steps


def written(name, arguments):
    """A call as the model writes it."""
    values = "".join(f"<parameter={k}>\n{v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)}\n</parameter>\n" for k, v in arguments.items())
    return f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"


def script(n_tools, n_steps, n_calls):
    return "\n%%\n".join(f"Step {i}: I look." + "\n\n" * bool(step) + "\n".join(written(*call) for call in step)
                        for i, step in enumerate(planned(n_tools, n_steps, n_calls)))


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(300)
        self.sock.connect(sys.argv[1])


def ask(body):
    """The parts of a streamed answer: text, reasoning, calls by index, why it ended."""
    c = Unix("x", timeout=300)
    c.request("POST", "/v1/chat/completions", json.dumps({"stream": True, **body}))
    r = c.getresponse()
    if r.status != 200:
        raise SystemExit(r.read().decode())
    text, reasoning, calls, why = "", "", {}, None
    for line in r:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[6:])
        if "error" in chunk:
            raise SystemExit(chunk["error"]["message"])
        for choice in chunk["choices"]:
            d = choice["delta"]
            text += d.get("content") or ""
            reasoning += d.get("reasoning_content") or ""
            for part in d.get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"id": part.get("id"), "name": part["function"].get("name"), "arguments": ""})
                call["arguments"] += part["function"].get("arguments") or ""
            why = choice.get("finish_reason") or why
    return text, reasoning, [calls[i] for i in sorted(calls)], why


def once(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a key twice")
    return dict(pairs)


def fits(schema, v):
    kind = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}.get(schema.get("type"))
    if "enum" in schema:
        return v in schema["enum"]
    if not isinstance(v, kind) or (isinstance(v, bool) and kind is not bool):
        return False
    if "minimum" in schema and not schema["minimum"] <= v <= schema["maximum"]:
        return False
    if kind is str:
        return len(v) <= schema.get("maxLength", len(v))
    if kind is list:
        return len(v) <= schema.get("maxItems", len(v)) and all(fits(schema["items"], x) for x in v)
    if kind is dict:
        return set(schema["required"]) <= set(v) <= set(schema["properties"]) and all(fits(schema["properties"][k], x) for k, x in v.items())
    return True


def verify(tools, call, faults):
    known = {name: parameters for name, parameters, _ in tools}
    try:
        arguments = json.loads(call["arguments"], object_pairs_hook=once)
    except ValueError as e:
        faults.append(f"malformed: {e}: {call}")
        return None
    schema = known.get(call["name"])
    if not schema or not fits({"type": "object", **schema}, arguments):
        faults.append(f"not what the tools say: {call}")
    return arguments


def main():
    if sys.argv[1] == "script":
        print(script(*map(int, sys.argv[2:5])), end="")
        return 0
    how, (n_tools, n_steps, n_calls) = sys.argv[2], map(int, sys.argv[3:6])
    tools = tools_of(n_tools, how == "random")
    offered = [{"type": "function", "function": {"name": name, "parameters": parameters}} for name, parameters, _ in tools]
    plan = planned(n_tools, n_steps, n_calls)
    messages, faults, ids, n = [{"role": "user", "content": "Do it, step by step."}], [], set(), 0
    for step in range(n_steps):
        for one in range(1 if how == "scripted" else n_calls // n_steps):
            body = {"messages": messages, "tools": offered, "max_tokens": 2000, "enable_thinking": False}
            if how == "random":     # as the model begins it, or wanted; a call each
                wanted = {"tool_choice": "required"} if one % 2 else {"logit_bias": {"<tool_call>": 90}}
                heat = [0.7, 2, 10 if one % 2 else 3][one % 3]          # where the bias must win, not more
                body.update(wanted, parallel_tool_calls=False, temperature=heat, top_p=1, top_k=0, min_p=0, seed=1000 * step + one)
            text, reasoning, calls, why = ask(body)
            raw = [m for m in MARKUP if m in text + reasoning]
            if raw:
                faults.append(f"raw: {raw[0]} in step {step}: {text[:200]!r}")
            if why != "tool_calls":
                faults.append(f"step {step} ended with {why}: {text[:100]!r} {str(calls)[-300:]}")
            want = [(name, arguments) for name, arguments in plan[step]] if how == "scripted" else None
            found = [(c["name"], verify(tools, c, faults)) for c in calls]
            if how == "scripted" and found != want:
                faults.append(f"step {step}: {len(found)} calls, expected {len(want)}: " + next((f"{f} is not {w}" for f, w in zip(found, want) if f != w), ""))
            if how == "random" and len(found) != 1:
                faults.append(f"step {step}: {len(found)} calls, expected one")
            n += len(found)
            doubled = [c["id"] for c in calls if c["id"] in ids]
            if doubled:
                faults.append(f"an id twice: {doubled}")
            ids |= {c["id"] for c in calls}
            messages = messages + [{"role": "assistant", "content": text, "tool_calls": [
                {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}} for c in calls]}]
            messages += [{"role": "tool", "tool_call_id": c["id"], "content": "done"} for c in calls]
        if how == "random":
            messages = messages[:1] + messages[-8:][next((i for i, m in enumerate(messages[-8:]) if m["role"] == "assistant"), 0):]
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    print(f"{n} calls, {len(faults)} faults")
    return 0


sys.exit(main())
