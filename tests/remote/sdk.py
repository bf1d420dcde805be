"""The packages of two makers read every kind of answer:  sdk.py ADDRESS KEY.  `sdk.py script` prints the answers for tests/remote/scripted.c."""
import http.client, json, re, sys, typing

CALL = "<tool_call>\n<function=%s>\n<parameter=x>\n%s\n</parameter>\n</function>\n</tool_call>"
CASES = [  # name, what the model writes, how it ends, the kinds of parts, anthropic's and openai's words for the end
    ("text", "</think>\n\nHello you", "stop", ["text"], "end_turn", "stop", "completed"),
    ("thinking", "Hm, well.\n</think>\n\nHello you", "stop", ["thinking", "text"], "end_turn", "stop", "completed"),
    ("calls", "Two.\n</think>\n\nI look.\n\n" + CALL % ("f", "a") + "\n" + CALL % ("g", "b"), "stop", ["thinking", "text", "call", "call"], "tool_use",
     "tool_calls", "completed"),
    ("limit", "Hm.\n</think>\n\nHello", "length", ["thinking", "text"], "max_tokens", "length", "incomplete"),
    ("context", "Hm, and", "context", ["thinking"], "model_context_window_exceeded", "length", "incomplete"),
    ("cut", "Hm.\n</think>\n\n" + (CALL % ("f", "abc"))[:48], "length", ["thinking"], "max_tokens", "length", "incomplete"),
    ("error", "Hm.\n</think>\n\nHello", "error", None, None, None, "failed"),
]
EACH = 9  # requests of a case: three dialects, each whole, as raw events, and by the package's helper
if sys.argv[1] == "script":
    print("\n".join(text + "\n%% " + end for _, text, end, *_ in CASES for _ in range(EACH)) + "\n</think>\n\nno more")
    sys.exit()

import anthropic, openai, pydantic
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
address, key = sys.argv[1:3]

# ---- names of fields, items and blocks

def names(table, kinds):
    return set(" ".join(re.findall(r'^(?:%s)\("([^"]*)"' % kinds, open("config/" + table).read(), re.M)).split())

def fields(module, *classes):
    return set().union(*(getattr(getattr(module, c, None), "__annotations__", {}) for c in classes))

def types(union):
    found = set()
    for member in typing.get_args(union):
        hint = typing.get_type_hints(member).get("type") if hasattr(member, "__annotations__") else None
        while hint is not None and typing.get_origin(hint) is not typing.Literal and typing.get_args(hint):
            hint = typing.get_args(hint)[0]
        found |= set(typing.get_args(hint) or ())
    return found

def expect(what, sent, known):
    assert len(sent) > 5 and sent <= known, "%s: %s" % (what, sorted(sent - known) if len(sent) > 5 else "the package has changed")

a, o, FIELDS = anthropic.types, openai.types, "DONE|IGNORED|REFUSED"
for module in (a.message_create_params, a.beta.message_create_params, a.message_count_tokens_params):
    expect("messages", fields(module, "MessageCreateParamsBase", "MessageCreateParamsStreaming", "MessageCountTokensParams"), names("messages_fields.def", FIELDS))
expect("chat", fields(o.chat.completion_create_params, "CompletionCreateParamsBase", "CompletionCreateParamsStreaming"), names("request_fields.def", FIELDS))
expect("completions", fields(o.completion_create_params, "CompletionCreateParamsBase"), names("request_fields.def", FIELDS))
expect("responses", fields(o.responses.response_create_params, "ResponseCreateParamsBase", "ResponseCreateParamsStreaming"), names("responses_fields.def", FIELDS))
BY_HAND = {"image", "document", "thinking", "tool_use", "tool_result"}
NOT_READ = {"container_upload", "tool_addition", "tool_removal"}  # refused by name
for union in (a.ContentBlockParam, a.beta.BetaContentBlockParam):
    expect("blocks", types(union), names("messages_fields.def", "TEXT|SKIPPED") | BY_HAND | NOT_READ)
expect("items", types(o.responses.response_input_param.ResponseInputItemParam), names("responses_fields.def", "CALL|RESULT|SKIPPED") |
       {"message", "reasoning"} | {"item_reference", "compaction", "computer_call", "computer_call_output"})

# ---- one request in three dialects

SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}
FLAT = [{"type": "function", "name": n, "description": "d", "parameters": SCHEMA, "strict": False} for n in "fg"]
BODIES = {
    "messages": {"model": "demo", "max_tokens": 99, "thinking": {"type": "enabled", "budget_tokens": 1024},
                 "messages": [{"role": "user", "content": "q"}], "tools": [{"name": n, "description": "d", "input_schema": SCHEMA} for n in "fg"]},
    "chat/completions": {"model": "demo", "messages": [{"role": "user", "content": "q"}],
                         "tools": [{"type": "function", "function": {k: v for k, v in t.items() if k not in ("type", "strict")}} for t in FLAT]},
    "responses": {"model": "demo", "input": "q", "reasoning": {"effort": "high"}, "tools": FLAT, "include": ["reasoning.encrypted_content"]},
}
EVENTS = {"messages": RawMessageStreamEvent, "chat/completions": ChatCompletionChunk, "responses": ResponseStreamEvent}
KINDS = {"reasoning": "thinking", "message": "text", "function_call": "call", "tool_use": "call"}
claude = anthropic.Anthropic(base_url=address, auth_token=key, max_retries=0)
gpt = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=0)

def post(path, body):
    c = http.client.HTTPConnection(address.split("//")[1], timeout=60)
    c.request("POST", "/v1/" + path, json.dumps(body), {"Authorization": "Bearer " + key, "Content-Type": "application/json"})
    r = c.getresponse()
    return r.status, r.read().decode()

def check_events(path, failed):
    """Each event has what the package's type requires, and no [DONE] where there is none."""
    adapter, n = pydantic.TypeAdapter(EVENTS[path]), 0
    for line in post(path, {**BODIES[path], "stream": True})[1].split("\n"):
        if not line.startswith("data: ") or line == "data: [DONE]" and path == "chat/completions":
            continue
        event = json.loads(line[6:])
        if failed and event.get("error") and "choices" not in event and "response" not in event:
            continue
        if event.get("type") != "ping":
            adapter.validate_python(event)
        n += 1
    assert n, path

def of_chat(choice):
    m = choice.message
    return (["thinking"] * bool(getattr(m, "reasoning_content", None)) + ["text"] * bool(m.content) + ["call"] * len(m.tool_calls or []), choice.finish_reason)

def of_chunks(chunks):
    kinds, finish = [], None
    for choice in (c.choices[0] for c in chunks if c.choices):
        d = choice.delta
        kinds += ["thinking"] * bool(getattr(d, "reasoning_content", None)) + ["text"] * bool(d.content) + ["call"] * sum(bool(t.id) for t in d.tool_calls or [])
        finish = choice.finish_reason or finish
    return [k for i, k in enumerate(kinds) if k == "call" or not i or kinds[i - 1] != k], finish

def helped(path):
    """What the helper of the package makes of a stream: kinds of parts, and the end."""
    body = BODIES[path]
    if path == "messages":
        with claude.messages.stream(**body) as s:
            m = s.get_final_message()
        return [KINDS.get(b.type, b.type) for b in m.content], m.stop_reason
    if path == "chat/completions":
        chunks = []
        tools = [{"type": "function", "function": {**t["function"], "strict": True}} for t in body["tools"]]     # the helper takes no others
        try:
            with gpt.chat.completions.stream(**{**body, "tools": tools}) as s:
                for event in s:
                    chunks += [event.chunk] if event.type == "chunk" else []
        except openai.LengthFinishReasonError:
            return of_chunks(chunks)[0], "length"
        return of_chunks(chunks)
    with gpt.responses.stream(**body) as s:
        last = [e for e in s][-1]
    return [KINDS.get(i.type, i.type) for i in last.response.output], last.response.status

def whole(path):
    status, text = post(path, BODIES[path])
    if status != 200:
        raise openai.OpenAIError(text)
    if path == "messages":
        m = pydantic.TypeAdapter(a.Message).validate_python(json.loads(text))
        return [KINDS.get(b.type, b.type) for b in m.content], m.stop_reason
    if path == "chat/completions":
        return of_chat(pydantic.TypeAdapter(o.chat.ChatCompletion).validate_python(json.loads(text)).choices[0])
    r = pydantic.TypeAdapter(o.responses.Response).validate_python(json.loads(text))
    return [KINDS.get(i.type, i.type) for i in r.output], r.status

for name, _, _, kinds, claude_end, chat_end, response_end in CASES:
    for path, end in (("messages", claude_end), ("chat/completions", chat_end), ("responses", response_end)):
        check_events(path, kinds is None)
        for read in (helped, whole):
            try:
                got = read(path)
            except (anthropic.AnthropicError, openai.OpenAIError) as e:
                assert kinds is None and "scripted error" in str(e), (name, path, read, e)
                continue
            if kinds is None:
                assert path == "responses" and got[1] == "failed", (name, path, got)
                continue
            wanted = list(kinds)
            if name == "cut" and (path == "chat/completions" or (path, read) == ("messages", helped)):
                wanted += ["call"]  # the beginning of a call, which the end says is not whole
            assert got == (wanted, end), (name, path, read.__name__, got, wanted, end)
for path in BODIES:
    for stream in (False, True):
        status, text = post(path, {**BODIES[path], "model": "other", "stream": stream})
        assert status == 404 and "unknown model" in json.loads(text)["error"]["message"], text
print("all is well with", anthropic.__version__, openai.__version__)
