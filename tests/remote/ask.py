"""Asks a server over its unix socket, and checks what comes.

    python3 tests/remote/ask.py SOCKET get PATH             prints the body
    python3 tests/remote/ask.py SOCKET post PATH JSON       prints the status, a blank, the body
    SOCKET is a path, or 127.0.0.1:PORT
    python3 tests/remote/ask.py SOCKET NAME [ARGUMENT...]   a function below of this name
"""
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

PATH = sys.argv[1]


# What a q35chat sends with each of its requests.
SAMPLING = {"temperature": 1, "top_p": 1, "min_p": 0, "presence_penalty": 0, "repetition_penalty": 1, "top_k": 0, "seed": 1, "max_tokens": -1,
            "draft_depth": 0, "lookup": False, "likely": 0, "logit_bias": {}}


def connected():
    tcp = not PATH.startswith("/")
    s = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
    s.settimeout(300)
    s.connect(("127.0.0.1", int(PATH.rsplit(":", 1)[1])) if tcp else PATH)
    return s


class Connection(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("localhost", timeout=300)

    def connect(self):
        self.sock = connected()


def ask(method, path, body=None, headers={}):
    c = Connection()
    try:
        c.request(method, path, body, headers)
    except BrokenPipeError:             # refused at its head, before the body was sent
        pass
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, data, r.headers


def question(**more):
    return json.dumps({"messages": [{"role": "user", "content": "What is 6*7?"}], "temperature": 0, **more})


def events(data):
    lines = [x[6:] for x in data.decode().split("\n\n") if x and not x.startswith(":")]    # a comment keeps a quiet stream open
    assert lines[-1] == "[DONE]", lines[-1]
    return [json.loads(x) for x in lines[:-1]]


def join(chunks, name):
    return "".join(c["choices"][0]["delta"].get(name) or "" for c in chunks if c["choices"])


def get(path):
    print(ask("GET", path)[1].decode())


def post(path, body):
    status, data, _ = ask("POST", path, body)
    print(status, data.decode())


def same():
    """A stream has what the whole answer has."""
    whole = json.loads(ask("POST", "/v1/chat/completions", question(logprobs=True, top_logprobs=3))[1])
    chunks = events(ask("POST", "/v1/chat/completions", question(stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=3))[1])
    choice = whole["choices"][0]
    assert join(chunks, "content") == choice["message"]["content"] != ""
    assert join(chunks, "reasoning_content") == join(chunks, "reasoning") == choice["message"]["reasoning_content"] == choice["message"]["reasoning"]
    finish = [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]]
    assert finish[-1] == choice["finish_reason"] == "stop" and set(finish[:-1]) == {None}
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert chunks[-2]["timings"]["predicted_n"] == whole["usage"]["completion_tokens"]
    told = choice["logprobs"]["content"]
    assert "".join(t["token"] for t in told) == choice["message"]["content"], [t["token"] for t in told]
    assert all(bytes(t["bytes"]).decode() == t["token"] and t["logprob"] <= 0 and t["top_logprobs"][0]["token"] == t["token"] for t in told)
    streamed = [t for c in chunks if c["choices"] for t in (c["choices"][0].get("logprobs") or {}).get("content", [])]
    assert [t["token"] for t in streamed] == [t["token"] for t in told]
    print("same")


def stops():
    """A stop string ends the answer before it, streamed or not."""
    for how in ("=", ["nowhere", "="]):
        whole = json.loads(ask("POST", "/v1/chat/completions", question(stop=how))[1])["choices"][0]
        assert whole["message"]["content"] == "6 * 7" and whole["finish_reason"] == "stop", whole
        assert join(events(ask("POST", "/v1/chat/completions", question(stop=how, stream=True))[1]), "content") == "6 * 7"
    counts = [json.loads(ask("POST", "/v1/chat/completions", question(stop="*"))[1])["usage"]["completion_tokens"] for _ in range(12)]
    assert len(set(counts)) == 1, counts        # not those that were made after it
    cut = json.loads(ask("POST", "/v1/chat/completions", question(max_tokens=3))[1])
    assert cut["choices"][0]["finish_reason"] == "length" and cut["usage"]["completion_tokens"] == 3
    print("stopped")


def refusals():
    """Each is refused with a sentence, and not by the next one's status."""
    base = {"messages": [{"role": "user", "content": "x"}]}
    for status, words, body in (
        (400, "not JSON", "{"), (400, "not a JSON object", "[]"), (400, "messages is missing", "{}"), (400, "messages is missing", '{"messages": []}'),
        (400, "message 1: it is not an object", '{"messages": [3]}'), (400, "tool_choice", json.dumps({**base, "tool_choice": "sometimes"})),
        (400, "temperature is not a number from 0 to 10", json.dumps({**base, "temperature": -1})),
        (400, "top_k is not a number from -1 to 1048576", json.dumps({**base, "top_k": -2})),
        (400, "temperature is not a number", json.dumps({**base, "temperature": "hot"})), (400, "n must be 1", json.dumps({**base, "n": 2})),
        (400, "response_format", json.dumps({**base, "response_format": {"type": "xml"}})), (400, "stop", json.dumps({**base, "stop": [""]})),
        (400, "stream is neither", json.dumps({**base, "stream": 1})), (400, "top_logprobs needs", json.dumps({**base, "top_logprobs": 2})),
        (400, "logit_bias", json.dumps({**base, "logit_bias": {"x": "y"}})), (404, "unknown model other", json.dumps({**base, "model": "other"})),
        (400, "message 2 (role \"critic\"): unknown role", json.dumps({"messages": base["messages"] + [{"role": "critic", "content": "x"}]})),
        (400, "does not support image input", json.dumps({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]})),
        (400, "guided_grammar is not supported", json.dumps({**base, "guided_grammar": "x"})), (400, "max_tokens is 0", json.dumps({**base, "max_tokens": 0})),
        (400, "continue_final_message", json.dumps({**base, "continue_final_message": True})),
        (400, "This model's maximum context length is", json.dumps({"messages": [{"role": "user", "content": "word " * 200000}]})),
    ):
        found, data, _ = ask("POST", "/v1/chat/completions", body)
        said = json.loads(data)["error"]["message"]
        assert found == status and words in said, (found, said, status, words)
    for path in ("/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize", "/q35chat/answer", "/q35chat/save", "/q35chat/interrupt"):
        for words, body in (("the body is not JSON: ", "{"), ("the body is not a JSON object", "[]")):
            found, data, _ = ask("POST", path, body)
            assert found == 400 and json.loads(data)["error"]["message"].startswith(words), (path, body, found, data)
    assert ask("GET", "/v1/chat/completions")[0] == 405 and ask("GET", "/nothing")[0] == 404
    unknown = "unknown path; docs/serve.md lists the paths"
    for method, path, error in (
        ("POST", "/v1/nothing", lambda r: r["error"]["message"]), ("POST", "/api/pull", lambda r: r["error"]),
        ("DELETE", "/api/delete", lambda r: r["error"]), ("HEAD", "/api/blobs/x", None),
        ("POST", "/v1/messages/batches", lambda r: r["type"] == "error" and r["error"]["type"] == "not_found_error" and r["error"]["message"]),
    ):
        found, data, _ = ask(method, path, None if method == "HEAD" else '{"model": "x"}')
        assert found == 404 and (not error or error(json.loads(data)) == unknown), (path, found, data)
    print("refused")


def call_question():
    """A question that the demo model answers with a call."""
    clock = {"type": "function", "function": {"name": "clock", "description": "Tells the current date and time.", "parameters": {"type": "object", "properties": {
        "zone": {"type": "string", "description": "IANA time zone, for example Europe/Paris; local time if absent"}}, "required": []}}}
    calculator = {"type": "function", "function": {"name": "calculator", "description": "Evaluates an arithmetic expression.", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string", "description": "for example (3 + 4) * 12"}}, "required": ["expression"]}}}
    return {"messages": [{"role": "user", "content": "What is 12*12? Use the calculator."}], "tools": [clock, calculator], "temperature": 0,
            "max_tokens": 300}


def prompt_tokens(body):
    """The tokens of the prompt, without a choice."""
    return json.loads(ask("POST", "/v1/chat/completions", json.dumps({**body, "max_tokens": 1}))[1])["usage"]["prompt_tokens"]


def tools():
    """Calls go out as OpenAI's do, and results come back under any spelling."""
    body = call_question()
    messages = body["messages"]
    whole = json.loads(ask("POST", "/v1/chat/completions", json.dumps(body))[1])["choices"][0]
    chunks = events(ask("POST", "/v1/chat/completions", json.dumps({**body, "stream": True}))[1])
    calls = whole["message"].get("tool_calls") or []
    parts = [p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls", [])]
    assert [p["function"]["name"] for p in parts if "name" in p["function"]] == [c["function"]["name"] for c in calls]
    assert "".join(p["function"].get("arguments", "") for p in parts) == "".join(c["function"]["arguments"] for c in calls)
    assert whole["finish_reason"] == ("tool_calls" if calls else "stop")
    for c in calls:
        json.loads(c["function"]["arguments"])
    for arguments in ('{"expression": "12*12"}', {"expression": "12*12"}):
        call = {"id": "call_0_0", "type": "function", "function": {"name": "calculator", "arguments": arguments}}
        more = messages + [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_0_0", "content": "144"}]
        status, data, _ = ask("POST", "/v1/chat/completions", json.dumps({**body, "messages": more}))
        assert status == 200, data
    for mode in ("required", "auto"):   # of the tools one is allowed, in both dialects; the prompt stays the same
        name = {"type": "function", "name": "clock"}
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": "clock"}}]}}
        reply = json.loads(ask("POST", "/v1/chat/completions", json.dumps({**body, "tool_choice": choice}))[1])
        called = [c["function"]["name"] for c in reply["choices"][0]["message"].get("tool_calls") or []]
        flat = {"input": messages[0]["content"], "tools": [{"type": "function", **t["function"]} for t in body["tools"]], "temperature": 0,
                "max_output_tokens": 300, "tool_choice": {"type": "allowed_tools", "mode": mode, "tools": [name]}}
        response = json.loads(ask("POST", "/v1/responses", json.dumps(flat))[1])
        assert [i["name"] for i in response["output"] if i["type"] == "function_call"] == called, (response, called)
        assert set(called) <= {"clock"} and (called or mode == "auto"), called
        assert response["usage"]["input_tokens"] == reply["usage"]["prompt_tokens"] == prompt_tokens(body), reply["usage"]
    print("called" if calls else "no call")


def recalled(path="/v1/chat/completions"):
    """History with an answer's calls continues that answer's own tokens, however the client has written it; a changed one is read as it is."""
    first = json.loads(ask("POST", path, json.dumps(call_question()))[1])
    call = first["choices"][0]["message"]["tool_calls"][0]
    assert first["choices"][0]["message"].get("reasoning_content"), first
    made = first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    found = []
    for arguments, more in ((" {\"expression\" :  \"12 \\u002a 12\"}", {}), (call["function"]["arguments"], {"content": "Wait."}),
                            ("{\"expression\": \"12*13\"}", {}), (call["function"]["arguments"], {"reasoning_content": "Hm."})):
        body = call_question()
        same = {**call, "function": {"name": call["function"]["name"], "arguments": arguments}}
        body["messages"] += [{"role": "assistant", "content": None, "tool_calls": [same], **more}, {"role": "tool", "tool_call_id": call["id"], "content": "144"}]
        reply = json.loads(ask("POST", path, json.dumps({**body, "max_tokens": 1}))[1])
        found.append(reply["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert found[0] >= made - 1 and max(found[1:]) < made - first["usage"]["completion_tokens"] + 5, (made, found)
    for parallel in (True, False):      # one that was ended after its call, too: its conversation is free at once
        body = {**call_question(), "parallel_tool_calls": parallel}
        first = json.loads(ask("POST", path, json.dumps(body))[1])
        body["messages"] += [first["choices"][0]["message"], {"role": "tool", "tool_call_id": call["id"], "content": "144"}]
        usage = json.loads(ask("POST", path, json.dumps({**body, "max_tokens": 1}))[1])["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] >= first["usage"]["prompt_tokens"] - 8, (parallel, first["usage"], usage)
    print("recalled")


def named(data):
    """The events of a stream of /v1/messages, each with a line of its name."""
    found = []
    for part in data.decode().split("\n\n"):
        if part and not part.startswith(":"):
            name, line = part.split("\n")
            event = json.loads(line.removeprefix("data: "))
            assert name == "event: " + event["type"], part
            found.append(event)
    return found


def put_together(events):
    """The message that a stream makes, as the clients of its maker put it together."""
    message, open_at = None, None
    for e in events:
        kind = e["type"]
        if kind == "message_start":
            assert message is None and e["message"]["content"] == [] and e["message"]["stop_reason"] is None
            message = e["message"]
        elif kind == "content_block_start":
            assert open_at is None and e["index"] == len(message["content"])
            open_at = e["index"]
            message["content"].append({**e["content_block"], "json": ""})
        elif kind == "content_block_delta":
            assert e["index"] == open_at
            block, delta = message["content"][open_at], e["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}[delta["type"]]
            to = "json" if key == "partial_json" else key
            block[to] += delta[key]
        elif kind == "content_block_stop":
            assert e["index"] == open_at
            block, open_at = message["content"][open_at], None
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = json.loads(text)
        elif kind == "message_delta":
            assert open_at is None
            message.update(e["delta"])
            message["usage"] = e["usage"]
        else:
            assert kind in ("ping", "message_stop"), e
    assert events[-1]["type"] == "message_stop" and sum(e["type"] == "message_stop" for e in events) == 1
    return message


def messages():
    """Anthropic's form: whole answers and streams are the same, and a turn with a tool reads nothing twice."""
    def say(**more):
        return ask("POST", "/v1/messages?beta=true", json.dumps({"model": "demo", "max_tokens": 300, "temperature": 0, **more}))[1]
    body = call_question()
    tools = [{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]} for f in (t["function"] for t in body["tools"])]
    asked = {"messages": body["messages"], "tools": tools, "thinking": {"type": "adaptive"}, "system": [{"type": "text", "text": "Be brief."}]}
    whole, events = json.loads(say(**asked)), named(say(**asked, stream=True))
    streamed = put_together(events)
    assert [b["type"] for b in whole["content"]] == ["thinking", "tool_use"] and whole["stop_reason"] == "tool_use", whole
    assert whole["content"][1]["input"] == {"expression": "12 * 12"}
    assert sum(e.get("delta", {}).get("type") == "input_json_delta" for e in events) > 3, events        # the arguments come in pieces
    for m in (whole, streamed):
        for b in m["content"]:
            b.pop("id", None)
    assert whole["content"] == streamed["content"] and whole["stop_reason"] == streamed["stop_reason"], (whole, streamed)
    total = lambda u: u["input_tokens"] + u["cache_read_input_tokens"]
    assert total(whole["usage"]) == total(streamed["usage"]) and whole["usage"]["output_tokens"] == streamed["usage"]["output_tokens"]
    for hidden in (False, True):        # the same turn, with what the client has seen of the reasoning
        asked["thinking"] = {"type": "adaptive", "display": "omitted" if hidden else "summarized"}
        first = put_together(named(say(**asked, stream=True)))
        assert bool(first["content"][0]["thinking"]) != hidden
        back = [{"role": "assistant", "content": first["content"][hidden:]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": [{"type": "text", "text": "144"}]},
            {"type": "text", "text": "<system-reminder>Be kind.</system-reminder>", "cache_control": {"type": "ephemeral"}}]}]
        second = json.loads(say(**{**asked, "messages": asked["messages"] + back}))
        assert second["usage"]["cache_read_input_tokens"] >= total(first["usage"]) + first["usage"]["output_tokens"] - 1, (first, second)
    count = json.loads(ask("POST", "/v1/messages/count_tokens", json.dumps({"model": "demo", **asked}))[1])
    assert count == {"input_tokens": total(whole["usage"])}, count
    for status, kind, words, more in (
        (400, "invalid_request_error", "prompt is too long: ", {"messages": [{"role": "user", "content": "word " * 200000}]}),
        (400, "invalid_request_error", "max_tokens is missing", {"max_tokens": None}), (404, "not_found_error", "unknown model", {"model": "other"})):
        for stream in (False, True):
            found, data, _ = ask("POST", "/v1/messages", json.dumps({"model": "demo", "max_tokens": 9, **asked, "stream": stream, **more}))
            error = json.loads(data)
            assert found == status and error["type"] == "error" and error["error"]["type"] == kind and error["error"]["message"].startswith(words), data
    print("like Anthropic's")


def arguments_of(parts):
    return "".join(p["function"].get("arguments", "") for p in parts)


def is_json(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False


def cuts():
    """An answer with a call, cut by the limit: its arguments are JSON only if they are whole, and it ends for want of length.  The same where
    the model itself ends within the call."""
    body = {**call_question(), "chat_template_kwargs": {"enable_thinking": False}}
    whole = json.loads(ask("POST", "/v1/chat/completions", json.dumps(body))[1])
    wanted, n, found = whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], whole["usage"]["completion_tokens"], set()
    ends = [{"max_tokens": i} for i in range(1, n, 2)] + [{"logit_bias": {"<|im_end|>": x, " ": -100}, "max_tokens": 60} for x in range(4, 20, 4)]
    for end in ends:
        got = json.loads(ask("POST", "/v1/chat/completions", json.dumps({**body, **end}))[1])["choices"][0]
        chunks = events(ask("POST", "/v1/chat/completions", json.dumps({**body, **end, "stream": True}))[1])
        last = [c["choices"][0] for c in chunks if c["choices"]][-1]
        calls = [c["function"]["arguments"] for c in got["message"].get("tool_calls", [])]
        parts = [p for c in chunks if c["choices"] for p in c["choices"][0]["delta"].get("tool_calls", [])]
        assert [last["finish_reason"], last.get("truncated")] == [got["finish_reason"], got.get("truncated")], (last, got)
        assert not calls or arguments_of(parts) == calls[0], (parts, calls)
        if "max_tokens" in end and len(end) == 1:
            assert got["finish_reason"] == "length" and got["truncated"] == "limit", got
            assert not calls or not is_json(calls[0]) or calls == [wanted], got
        elif calls and not is_json(calls[0]):
            assert got["finish_reason"] == "length" and got["truncated"] in ("model", "limit"), got
        found |= {(got["truncated"] if calls and not is_json(calls[0]) else "whole")} if calls else set()
    assert {"limit", "model"} <= found, found
    print("cut")


def killed(pid):
    """The server is killed while it writes a call: what came of the arguments is no JSON."""
    c = Connection()
    c.request("POST", "/v1/chat/completions", json.dumps({**call_question(), "stream": True}))
    r, data = c.getresponse(), b""
    while b"tool_calls" not in data:
        data += r.read1(4096)
    os.kill(int(pid), signal.SIGKILL)
    try:
        data += r.read()
    except (http.client.HTTPException, OSError):
        pass
    chunks = [json.loads(x[6:]) for x in data.decode().split("\n\n") if x.endswith("}")]
    arguments = arguments_of([p for c in chunks for p in c["choices"][0]["delta"].get("tool_calls", [])])
    print("no JSON" if arguments and not is_json(arguments) else arguments)


def plain():
    """A turn that is written out, as text or as tokens, is answered in the words of the chat."""
    turn = "<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    told = json.loads(ask("POST", "/tokenize", json.dumps({"prompt": turn}))[1])
    asked = {"messages": [{"role": "user", "content": "What is 6*7?"}], "chat_template_kwargs": {"enable_thinking": False}}
    made = json.loads(ask("POST", "/tokenize", json.dumps(asked))[1])
    assert told["tokens"] == made["tokens"] and told["count"] == len(told["tokens"]) and told["max_model_len"] > 0, (told, made)
    back = json.loads(ask("POST", "/detokenize", json.dumps({"tokens": told["tokens"]}))[1])
    assert back["prompt"] == back["content"] == turn
    plain = json.loads(ask("POST", "/tokenize", json.dumps({"content": turn, "parse_special": False}))[1])
    assert plain["count"] > told["count"]
    chat = json.loads(ask("POST", "/v1/chat/completions", question(**asked))[1])["choices"][0]["message"]["content"]
    body = {"temperature": 0, "max_tokens": 200, "logprobs": 2}
    for prompt in (turn, [turn], told["tokens"], [told["tokens"]]):
        whole = json.loads(ask("POST", "/v1/completions", json.dumps({**body, "prompt": prompt}))[1])
        choice = whole["choices"][0]
        assert whole["object"] == "text_completion" and choice["finish_reason"] == "stop" and choice["text"] == chat != "", whole
        assert whole["usage"]["prompt_tokens"] == told["count"]
        logprobs = choice["logprobs"]
        assert "".join(logprobs["tokens"]) == chat and logprobs["text_offset"][0] == 0
        assert len({len(x) for x in logprobs.values()}) == 1 and all(p <= 0 for p in logprobs["token_logprobs"])
        assert all(t in most and len(most) == 2 for t, most in zip(logprobs["tokens"], logprobs["top_logprobs"]))
    chunks = events(ask("POST", "/v1/completions", json.dumps({**body, "prompt": turn, "stream": True, "stream_options": {"include_usage": True}}))[1])
    parts = [c["choices"][0] for c in chunks if c["choices"]]
    assert "".join(p["text"] for p in parts) == chat and parts[-1]["finish_reason"] == "stop"
    assert [t for p in parts for t in (p["logprobs"] or {}).get("tokens", [])] == logprobs["tokens"]
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    few = json.loads(ask("POST", "/v1/completions", json.dumps({"prompt": "a b c d e f g h i", "temperature": 0}))[1])
    assert few["usage"]["completion_tokens"] <= 16 and few["choices"][0]["logprobs"] is None
    stopped = json.loads(ask("POST", "/v1/completions", json.dumps({**body, "prompt": turn, "stop": chat[2:4]}))[1])["choices"][0]
    assert stopped["text"] == chat[:2].rstrip() and stopped["finish_reason"] == "stop", stopped
    for path, words, body in (
        ("/v1/completions", "prompt is neither", {}), ("/v1/completions", "prompt is neither", {"prompt": [1, "x"]}), ("/v1/completions", "no tokens", {"prompt": ""}),
        ("/v1/completions", "prompt has 2 prompts", {"prompt": ["a", "b"]}), ("/v1/completions", "token 2 of the prompt is 9999999", {"prompt": [1, 9999999]}),
        ("/v1/completions", "prompt is neither", {"prompt": [-1]}), ("/v1/completions", "echo", {"prompt": "a", "echo": True}),
        ("/v1/completions", "suffix", {"prompt": "a", "suffix": "b"}), ("/v1/completions", "best_of", {"prompt": "a", "best_of": 2}),
        ("/v1/completions", "logprobs is not", {"prompt": "a", "logprobs": 99}), ("/tokenize", "prompt, content or messages", {}),
        ("/tokenize", "messages is missing", {"messages": []}), ("/detokenize", "tokens is not", {"tokens": "a"}), ("/detokenize", "tokens is not", {"tokens": [1e3]}),
    ):
        found, data, _ = ask("POST", path, json.dumps(body))
        said = json.loads(data)["error"]["message"]
        assert found == 400 and words in said, (found, said, words)
    assert json.loads(ask("POST", "/detokenize", json.dumps({"tokens": [2147483647]}))[1])["content"] == ""
    print("the same")


def leaves(n):
    """Clients that go away in the middle of a stream, and while they wait."""
    for _ in range(int(n)):
        c = Connection()
        c.request("POST", "/v1/chat/completions", question(stream=True, max_tokens=100000, presence_penalty=-10, chat_template_kwargs={"enable_thinking": False}))
        c.getresponse().read(200)
        waits = Connection()
        waits.request("POST", "/v1/chat/completions", question())
        waits.close()
        c.close()
    print("left")


def comes_back():
    """A client leaves while the model reasons, and comes back with one more message: its prompt is not read again."""
    asked = {"role": "user", "content": "The quick brown fox jumps over the lazy dog. " * 60}
    c = Connection()
    c.request("POST", "/v1/chat/completions", question(messages=[asked], stream=True, max_tokens=1000))
    r = c.getresponse()
    while b'"reasoning_content": "' not in r.readline():
        pass
    c.close()
    wait_for("running", 0)
    wait_for_rest()
    body = question(messages=[asked, {"role": "user", "content": "And?"}], max_tokens=1)
    usage = json.loads(ask("POST", "/v1/chat/completions", body)[1])["usage"]
    read = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
    print("%s" % ("not read again" if usage["prompt_tokens"] > 500 and read < 100 else usage))


def crowd(n):
    """All at once: some are answered, the others are told to come again."""
    found = []

    def one():
        status, _, headers = ask("POST", "/v1/chat/completions", question(max_tokens=8))
        found.append((status, headers.get("Retry-After")))
    threads = [threading.Thread(target=one) for _ in range(int(n))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(f in ((200, None), (429, "2")) for f in found), found
    print(sum(s == 200 for s, _ in found), sum(s == 429 for s, _ in found))


def banned(*names):
    """A logit_bias against these control tokens."""
    return {t: -100 for w in names for t in json.loads(ask("POST", "/tokenize", json.dumps({"content": w, "parse_special": True}))[1])["tokens"]}


def together(n, places):
    """Each of n answers is the one that it is alone; prints how many were seen under way at once, asking again until all places were taken."""
    def answer(i):
        body = {"prompt": "%d " % i * (20 * i), "max_tokens": 200 + 100 * i, "logit_bias": banned("<|im_end|>", "<|endoftext|>"), "seed": i, "temperature": i % 2}
        return json.loads(ask("POST", "/v1/completions", json.dumps(body))[1])["choices"][0]["text"]
    numbers = range(1, int(n) + 1)
    alone = [answer(i) for i in numbers]
    most = 0
    for _ in range(50):
        beside = {}
        threads = [threading.Thread(target=lambda i=i: beside.__setitem__(i, answer(i))) for i in numbers]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            most = max(most, json.loads(ask("GET", "/health")[1])["running"])
            threads[0].join(0.01)
        assert [beside[i] for i in numbers] == alone and all(alone), (alone, beside)
        if most >= int(places):
            break
    print(most)


def endless(tokens, i=0):
    """A body: an answer of so many tokens, with 700 bytes for each."""
    return {"messages": [{"role": "user", "content": "%d " % i * 20}], "max_tokens": tokens, "seed": i, "temperature": i % 2, "logprobs": True, "top_logprobs": 8,
            "chat_template_kwargs": {"enable_thinking": False}, "logit_bias": banned("<|im_end|>", "<|endoftext|>", "<tool_call>")}


def unread(body, path="/v1/chat/completions"):
    """Asks, and reads nothing but the head of the reply."""
    c = Connection()
    c.connect()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.request("POST", path, json.dumps(body))
    return c, c.getresponse()


def gauge(name):
    lines = ask("GET", "/metrics")[1].decode().split("\n")
    return int([x for x in lines if x.startswith("q35chat_%s " % name)][0].split()[1])


def wait_for(name, value):
    while gauge(name) != value:
        time.sleep(0.05)


def wait_for_rest():
    """Until the server of a unix socket has had next to no processor for four seconds: it reads ahead when it has no requests."""
    s = connected()
    pid = struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    s.close()
    worked, before = 0, -100
    while worked - before > 8:          # hundredths of a second
        time.sleep(4)
        with open("/proc/%d/stat" % pid) as f:
            worked, before = sum(map(int, f.read().rpartition(")")[2].split()[11:13])), worked


def wait_for_status(program, connections, unread):
    """Until `q35chat serve status` tells that."""
    told = "%d other connection%s, 0 answers under way, 0 requests waiting, %d answer%s not read\n" % (
        connections, "s" * (connections != 1), unread, "s" * (unread != 1))
    while not subprocess.run([program, "serve", "status"], capture_output=True, text=True).stdout.endswith("; " + told):
        time.sleep(0.05)


def readers(n, tokens, program):
    """n clients read nothing: their answers wait, others are answered; when they read, they get the answers that they would have had."""
    n, tokens = int(n), int(tokens)
    bodies = [endless(tokens, i) for i in range(n)]

    def whole(body):
        choice = json.loads(ask("POST", "/v1/chat/completions", json.dumps(body))[1])["choices"][0]
        return choice["message"]["content"], [t["token"] for t in choice["logprobs"]["content"]], choice["finish_reason"]
    alone = [whole(b) for b in bodies]
    slow = [unread({**b, "stream": True}) for b in bodies]
    wait_for("unread", n)
    assert gauge("running") == 0 and gauge("waiting") == 0
    assert whole(bodies[0]) == alone[0]         # that of another, from its first token to its last
    assert gauge("unread") == n
    wait_for_status(program, n, n)
    gone = slow.pop()                   # one goes away without having read
    gone[1].close()
    gone[0].close()
    wait_for_status(program, n - 1, n - 1)
    for i, (c, r) in enumerate(slow):
        chunks = events(r.read())
        parts = [x["choices"][0] for x in chunks]
        told = [t["token"] for p in parts for t in (p.get("logprobs") or {}).get("content", [])]
        found = join(chunks, "content"), told, parts[-1]["finish_reason"]
        assert found == alone[i], (i, found, alone[i])
        assert found[2] == "length" and chunks[-1]["timings"]["predicted_n"] == tokens, (i, chunks[-1])
        c.close()
    wait_for_status(program, 0, 0)
    print("read")


def reads_never(tokens):
    """Who reads nothing for so long has a part of the answer, and a sentence.  The answer of an attached chat stays: that may be suspended."""
    body, many = endless(int(tokens)), int(tokens) * 4 // 3     # an attached chat has 540 bytes for each
    ids = json.loads(ask("POST", "/tokenize", json.dumps({"content": "a b c"}))[1])["tokens"]
    attached = {"id": "1-1", "conversation": 7, "prompt": ids, "snapshot_pos": 0, "answer_prefix": 0, **SAMPLING, "max_tokens": many, "likely": 8,
                "logit_bias": body["logit_bias"]}
    c, chat = unread(attached, "/q35chat/answer")
    wait_for("unread", 1)
    d, program = unread({**body, "stream": True})
    wait_for("requests_unread_total", 1)
    assert gauge("unread") == 1
    lines = [x for x in program.read().decode().split("\n\n") if not x.startswith(":")]
    assert json.loads(lines[1][6:])["choices"][0]["delta"]["content"]
    said = json.loads(lines[-2][6:])["error"]["message"]
    told = [json.loads(x) for x in chat.read().decode().split("\n") if x]
    assert sum("token" in x for x in told) == many and told[-1]["done"] == "length", told[-1]
    print(said)


def raw(data):
    s = connected()
    s.sendall(data)
    return s


def hostile():
    """Half requests, huge ones and nonsense, while others are answered."""
    held = [raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"), raw(b"GET /v1/mod"), raw(b""), raw(b"\0\xff\r\n\r\n" * 9)]
    assert b" 413 " in raw(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n").recv(100)
    assert b" 431 " in raw(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: " + b"b" * 200000 + b"\r\n\r\n").recv(100)
    deep = b'{"messages": ' + b"[" * 5000
    assert ask("POST", "/v1/chat/completions", deep)[0] == 400
    slow = Connection()                 # reads nothing of a long stream
    slow.request("POST", "/v1/chat/completions", question(stream=True, max_tokens=2000, presence_penalty=-10, chat_template_kwargs={"enable_thinking": False}))
    assert ask("POST", "/v1/chat/completions", question(max_tokens=4))[0] == 200
    assert events(slow.getresponse().read())
    for s in held:
        s.close()
    print("held out")


def silence(n):
    """A stream whose prompt is read, and one behind it, have their status lines at once, and comments while there is nothing else."""
    asked = []
    for words in (int(n), 1):
        c = Connection()
        began = time.monotonic()
        c.request("POST", "/v1/chat/completions", json.dumps({"stream": True, "max_tokens": 4, "messages": [{"role": "user", "content": "word " * words}]}))
        reply = c.getresponse()
        assert reply.status == 200 and time.monotonic() - began < 2, (reply.status, time.monotonic() - began)
        asked.append((c, reply))
    for c, reply in asked:
        lines, last = [], time.monotonic()
        while b": waiting\n" not in lines:
            lines.append(reply.readline())
            assert lines[-1] and time.monotonic() - last < 7, lines
            last = time.monotonic()
        assert all(x[:6] in (b"data: ", b"\n", b": wait") for x in lines), lines
    for c, reply in asked:
        c.close()
    late = ask("POST", "/v1/chat/completions", json.dumps({"stream": True, "messages": [{"role": "user", "content": "word " * 200000}]}))
    assert late[0] == 400, late
    print("never silent")


def keys(key):
    """Over TCP the key is wanted, and a name of this machine."""
    found = [ask("GET", "/v1/models", headers=h)[0] for h in (
        {}, {"Authorization": "Bearer " + key}, {"Authorization": "Bearer " + key + "x"}, {"Authorization": "Bearer " + key[:-1]}, {"Authorization": "Bearer "},
        {"Authorization": key}, {"Authorization": "Bearer " + key, "Host": "evil.example"}, {"Authorization": "Bearer " + key, "Host": "localhost:1"},
        {"Authorization": "Bearer " + key, "Host": "localhost.evil.example"})]
    body = ask("GET", "/v1/models", headers={"Authorization": "Bearer " + key})[1]
    assert b"root" not in body, body
    print(*found, ask("GET", "/health")[0], ask("POST", "/stop", headers={"Authorization": "Bearer " + key})[0])


def doors(key):
    """Other names, both makers' fields of the model, and web pages of a listed origin."""
    keyed, page = {"Authorization": "Bearer " + key}, "https://app.example"
    assert ask("GET", "/v1/models", headers={"x-api-key": key})[0] == 200 and ask("GET", "/v1/models", headers={"x-api-key": key + "x"})[0] == 401
    names = {name: ask("GET", "/v1/models/" + name, headers=keyed) for name in ("demo", "claude-haiku", "gpt-4o", "other")}
    assert [names[n][0] for n in names] == [200, 200, 200, 404], names
    model = json.loads(names["gpt-4o"][1])
    assert model["id"] == model["display_name"] == "gpt-4o" and model["object"] == model["type"] == "model" and model["max_input_tokens"] == model["max_model_len"]
    assert model["created_at"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(model["created"])), model
    listed = json.loads(ask("GET", "/v1/models", headers=keyed)[1])
    assert [m["id"] for m in listed["data"]] == ["demo"] == [listed["first_id"]] == [listed["last_id"]] and listed["has_more"] is False, listed
    for model, status in (("claude-haiku", 200), ("other", 404)):
        for path in ("/v1/chat/completions", "/v1/messages"):
            assert ask("POST", path, question(model=model, max_tokens=1), keyed)[0] == status, (path, model)
    status, data, _ = ask("POST", "/v1/embeddings", json.dumps({"input": "x"}), keyed)
    assert status == 404 and "embeddings" in json.loads(data)["error"]["message"], data
    wants = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    status, _, headers = ask("OPTIONS", "/v1/chat/completions", headers={"Origin": page, **wants})
    assert status == 204 and headers["Access-Control-Allow-Origin"] == page and headers["Access-Control-Allow-Headers"] == wants["Access-Control-Request-Headers"]
    status, data, headers = ask("OPTIONS", "/v1/chat/completions", headers={"Origin": "https://evil.example", **wants})
    assert status == 401 and headers["Access-Control-Allow-Origin"] is None
    for body in (question(max_tokens=1), question(max_tokens=1, stream=True), "{"):
        assert ask("POST", "/v1/chat/completions", body, {**keyed, "Origin": page})[2]["Access-Control-Allow-Origin"] == page
        assert ask("POST", "/v1/chat/completions", body, {**keyed, "Origin": "null"})[2]["Access-Control-Allow-Origin"] is None
    assert ask("GET", "/v1/models", headers={"Origin": page})[0] == 401 and ask("OPTIONS", "/", headers={"Origin": page, "Host": "evil.example"})[0] == 403
    print("open to those who are listed")


globals()[sys.argv[2]](*sys.argv[3:])
