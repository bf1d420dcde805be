"""Requests to /v1/responses as Codex and the openai package send them; the replies are checked event by event.  Usage: responses.py ADDRESS KEY.
With the openai package its own types read the streams as well."""
import http.client, json, sys
address, key = sys.argv[1:3]
host = address.split("//")[1]
CLOCK = {"type": "function", "name": "clock", "description": "Tells the time in a time zone.", "strict": False,
         "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}}
NOTE = {"type": "custom", "name": "note", "description": "Writes down a text.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}}
HEAD = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are short."}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "The folder is /tmp."}]}]
QUESTION = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What time is it in Berlin? Use the tool."}]}

def check(ok, what):
    if not ok:
        print("not ok", what)
        sys.exit(1)

def post(body, status=200, path="/v1/responses"):
    c = http.client.HTTPConnection(host, timeout=60)
    c.request("POST", path, json.dumps(body), {"Authorization": "Bearer " + key, "Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    check(r.status == status, f"status {r.status}, expected {status}: {text[:300]}")
    return text

def events(body):
    """The events of a stream: each has its name twice and the next number; what an item's deltas add up to is what its end has."""
    got, texts = [], {}
    for block in post({**body, "stream": True}).split("\n\n"):
        lines = [l for l in block.split("\n") if l and not l.startswith(":")]
        if not lines:
            continue
        check(len(lines) == 2 and lines[0].startswith("event: ") and lines[1].startswith("data: "), "an event has two lines: " + block)
        e = json.loads(lines[1][6:])
        check(e["type"] == lines[0][7:] and e["sequence_number"] == len(got), "name and number: " + block)
        got.append(e)
        where = (e.get("output_index"), e.get("content_index"))
        if e["type"].endswith(".delta"):
            texts[where] = texts.get(where, "") + e["delta"]
        elif e["type"].endswith((".arguments.done", "_text.done", "_input.done")):
            whole = e.get("arguments", e.get("text", e.get("input")))
            check(texts.get(where, "") == whole, f"deltas {texts.get(where)!r} add up to {whole!r}")
    check([e["type"] for e in got[:2]] == ["response.created", "response.in_progress"], "the beginning")
    added = [e["item"]["id"] for e in got if e["type"] == "response.output_item.added"]
    done = [e["item"] for e in got if e["type"] == "response.output_item.done"]
    check([i["id"] for i in done] == added[:len(done)], "items end in the order in which they begin")
    check(got[-1]["response"]["output"] == done, "the response at the end has the items")
    return got[-1], done

# A text, whole and as a stream.
r = json.loads(post({"model": "", "input": "What is the capital of France?", "reasoning": {"effort": "none"}}))
check(r["status"] == "completed" and "Paris" in r["output"][0]["content"][0]["text"], "a text: %r" % r["output"])
count = json.loads(post({"input": "What is the capital of France?", "reasoning": {"effort": "none"}}, path="/v1/responses/input_tokens"))
check(count == {"object": "response.input_tokens", "input_tokens": r["usage"]["input_tokens"]}, "tokens are counted: %r" % count)
check("input is missing" in post({}, 400, "/v1/responses/input_tokens"), "a count is refused")
check(r["usage"]["total_tokens"] == r["usage"]["input_tokens"] + r["usage"]["output_tokens"], "usage")
last, items = events({"model": "", "input": HEAD + [{"role": "user", "content": "Who are you?"}], "reasoning": {"summary": "auto"}, "store": False,
                      "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "tools": [{"type": "web_search"}]})
check([i["type"] for i in items] == ["reasoning", "message"] and last["type"] == "response.completed", "reasoning and a text")
check(items[0]["encrypted_content"].endswith(items[0]["content"][0]["text"]), "reasoning that can be kept")

# A call, its result, and the answer: the second prompt begins with the first one and its answer, however the client keeps the reasoning.
first, items = events({"model": "", "input": HEAD + [QUESTION], "tools": [CLOCK, NOTE], "include": ["reasoning.encrypted_content"]})
calls = [i for i in items if i["type"] == "function_call"]
check(len(calls) == 1 and json.loads(calls[0]["arguments"])["zone"], "a call: %r" % items)
result = {"type": "function_call_output", "call_id": calls[0]["call_id"], "output": "It is 12:00."}
mine = first["response"]["usage"]
for kept in ("content", "encrypted_content"):
    history = [{k: v for k, v in i.items() if i["type"] != "reasoning" or k in ("type", "id", "summary", kept)} for i in items]
    last, _ = events({"model": "", "input": HEAD + [QUESTION] + history + [result], "tools": [CLOCK, NOTE]})
    cached = last["response"]["usage"]["input_tokens_details"]["cached_tokens"]
    check(cached >= mine["input_tokens"] + mine["output_tokens"] - 64, f"with {kept} {cached} tokens were cached of {mine}")

# A limit, and a refusal each.
last, _ = events({"model": "", "input": "Tell me a long story.", "max_output_tokens": 5, "reasoning": {"effort": "none"}})
check(last["type"] == "response.incomplete" and last["response"]["incomplete_details"]["reason"] == "max_output_tokens", "a limit")
check(last["response"]["output"][-1]["status"] == "incomplete", "a text that was cut does not look whole")
r = json.loads(post({"model": "", "input": "Tell me a long story.", "max_output_tokens": 5, "reasoning": {"effort": "none"}}))
check(r["status"] == r["output"][-1]["status"] == "incomplete", "nor does it in one piece")
last, items = events({"model": "", "input": HEAD + [QUESTION], "tools": [CLOCK], "max_output_tokens": 14, "reasoning": {"effort": "none"}})
check(last["type"] == "response.incomplete" and not items, "a call that was cut is no item: %r" % items)
for more, words in (({"previous_response_id": "x"}, "previous_response_id is not supported"), ({"background": True}, "background is not"),
                    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0] is of the type"), ({"input": 1}, "input is missing")):
    e = json.loads(post({"model": "", "input": "a", **more}, 400))["error"]
    check(words in e["message"] and e["type"] == "invalid_request_error", "a refusal: %r" % e)

try:
    import openai
    c = openai.OpenAI(base_url=address + "/v1", api_key=key)
    with c.responses.stream(model="", input=HEAD + [QUESTION], tools=[CLOCK]) as s:
        kinds = {e.type for e in s}
        check("response.function_call_arguments.delta" in kinds and s.get_final_response().output[-1].name == "clock", "the package's types")
except ImportError:
    pass
print("all is well")
