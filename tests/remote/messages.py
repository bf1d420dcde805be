"""The `anthropic` Python package as a client:  python3 tests/remote/messages.py ADDRESS KEY"""
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key=sys.argv[2], timeout=300, max_retries=0)
model = client.models.list().data[0].id
ask = {"model": model, "max_tokens": 600, "messages": [{"role": "user", "content": "What is 6*7?"}],
       "extra_body": {"temperature": 0}}
thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def streamed(**more):
    """Returns the message that the package puts together, whose types it has checked, and the kinds of its events."""
    kinds = []
    with client.messages.stream(**{**ask, **more}) as stream:
        for event in stream:
            kinds.append(event.type)
        return stream.get_final_message(), kinds


def same(whole, other):
    keep = lambda m: [{k: v for k, v in block.model_dump().items() if k not in ("id", "parsed_output", "citations")} for block in m.content]
    assert keep(whole) == keep(other), (whole, other)
    assert (whole.stop_reason, whole.stop_sequence) == (other.stop_reason, other.stop_sequence)
    assert whole.usage.output_tokens == other.usage.output_tokens > 0
    total = lambda u: u.input_tokens + u.cache_read_input_tokens
    assert total(whole.usage) == total(other.usage), (whole.usage, other.usage)


plain = client.messages.create(**ask)
assert plain.content[0].type == "text" and "42" in plain.content[0].text and plain.stop_reason == "end_turn", plain
assert plain._request_id.startswith("req_") and client.models.list()._request_id, plain._request_id
same(plain, streamed()[0])
thought = client.messages.create(**ask, **thinks)
assert [b.type for b in thought.content] == ["thinking", "text"] and thought.content[0].thinking and thought.content[0].signature, thought
message, kinds = streamed(**thinks)
same(thought, message)
assert message.usage.cache_read_input_tokens > 0 and kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
hidden, _ = streamed(thinking={"type": "adaptive", "display": "omitted"}, output_config={"effort": "high"})
assert hidden.content[0].type == "thinking" and hidden.content[0].thinking == "" and hidden.content[1].text == thought.content[1].text, hidden
assert client.messages.create(**ask, stop_sequences=["nowhere", "2"]).stop_sequence == "2"
stopped, _ = streamed(stop_sequences=["2"])
assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == "2" and "2" not in stopped.content[0].text, stopped
assert client.messages.create(**{**ask, "max_tokens": 2}).stop_reason == streamed(max_tokens=2)[0].stop_reason == "max_tokens"

# A turn with a tool: nothing of it is read twice, though the client sees no reasoning, and the reminder behind the result ends no turn.
tools = [
    {"name": "clock", "description": "Tells the current date and time.", "input_schema": {"type": "object", "properties": {
        "zone": {"type": "string", "description": "IANA time zone, for example Europe/Paris; local time if absent"}}, "required": []}},
    {"name": "calculator", "description": "Evaluates an arithmetic expression.", "input_schema": {
        "type": "object", "properties": {"expression": {"type": "string", "description": "for example (3 + 4) * 12"}}, "required": ["expression"]}},
    {"type": "web_search_20250305", "name": "web_search"}]
talk = [{"role": "user", "content": [{"type": "text", "text": "What is 12*12? Use the calculator.", "cache_control": {"type": "ephemeral"}}]}]
system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=%s;"}, {"type": "text", "text": "Be brief."}]
turn = {"tools": tools, "thinking": {"type": "adaptive", "display": "omitted"}, "tool_choice": {"type": "auto"}}
for stream in (False, True):
    said = [{**system[0], "text": "x-anthropic-billing-header: %d" % stream}, system[1]]
    first = streamed(messages=talk, system=said, **turn)[0] if stream else client.messages.create(**{**ask, **turn, "messages": talk, "system": said})
    assert first.stop_reason == "tool_use" and first.content[-1].type == "tool_use" and first.content[-1].input == {"expression": "12 * 12"}, first
    made = first.usage.input_tokens + first.usage.cache_read_input_tokens + first.usage.output_tokens
    back = [b.model_dump(exclude_none=True) for b in first.content if b.type != "thinking"]
    more = talk + [{"role": "assistant", "content": back}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": [{"type": "text", "text": "144"}]},
        {"type": "text", "text": "<system-reminder>Be kind.</system-reminder>"}]}]
    second = client.messages.create(**{**ask, **turn, "messages": more, "system": [system[1]]})
    assert second.usage.cache_read_input_tokens >= made - 1 and second.content, (made, second)
one = client.messages.create(**{**ask, **turn, "messages": talk, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}})
assert one.stop_reason == "tool_use", one
for stream in (False, True):
    noted = client.messages.with_raw_response.create(**{**ask, "messages": talk, "tools": tools, "stream": stream})
    assert noted.headers["x-q35chat-note"] == "tools that other servers run are left out: web_search", noted.headers
cut, _ = streamed(messages=talk, system=system, **{**turn, "thinking": {"type": "disabled"}}, max_tokens=20)
assert cut.stop_reason == "max_tokens", cut
count = client.messages.count_tokens(model=model, messages=talk, tools=tools, system="Be brief.")
assert count.input_tokens == first.usage.input_tokens + first.usage.cache_read_input_tokens + 2, (count, first.usage)      # the thought's beginning

# Without an answer the prompt is read for the next request.
early = {**ask, "messages": [{"role": "user", "content": "Count: " + "one two three " * 40}]}
for read in (client.messages.create(**{**early, "max_tokens": 0}), streamed(**{**early, "max_tokens": 0})[0]):
    assert read.content == [] and read.stop_reason == "max_tokens" and read.usage.output_tokens == 0 and read.usage.input_tokens < 150, read
assert client.messages.create(**{**early, "max_tokens": 1}).usage.input_tokens < 6

# An answer at the end of the conversation is continued, and its tokens are counted.
begun = ask["messages"] + [{"role": "assistant", "content": "6 * 7 ="}]
assert client.messages.create(**{**ask, "messages": begun}).content[0].text == streamed(messages=begun)[0].content[0].text == " 42."
for text in ("6 * 7 = \n", "\n 6 * 7 =", [{"type": "text", "text": " 6 * 7 ="}], [{"type": "text", "text": "6 * 7"}, {"type": "text", "text": " = "}, {"type": "text", "text": " "}]):
    assert client.messages.create(**{**ask, "messages": begun[:1] + [{"role": "assistant", "content": text}]}).content[0].text == " 42.", text
assert client.messages.create(**{**ask, "messages": begun[:1] + [{"role": "assistant", "content": " "}]}).content[0].text
called = client.messages.create(**{**ask, "messages": begun, "tool_choice": {"type": "any"}, "tools": tools[:2]})
assert called.stop_reason in ("tool_use", "max_tokens"), called
counts = [client.messages.count_tokens(model=model, messages=m).input_tokens for m in (ask["messages"], begun)]
assert counts[1] == counts[0] + 5, counts

@anthropic.beta_tool
def calculator(expression: str) -> str:
    """Evaluates an arithmetic expression.

    Args:
        expression: for example (3 + 4) * 12
    """
    return "144"


# The package's loop asks for a conversation that the server keeps, and continues without one.
runner = client.beta.messages.tool_runner(tools=[calculator], **{**ask, "messages": [{"role": "user", "content": "What is 12*12? Use the calculator."}]})
assert [m.stop_reason for m in runner] == ["tool_use", "end_turn"]

picture = [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}]
for wrong, status, words in (
    ({"messages": [ask["messages"][0]] + talk + picture}, anthropic.BadRequestError, "message 3"),
    ({"messages": [{"role": "user", "content": "word " * 200000}]}, anthropic.BadRequestError, "prompt is too long: "),
    ({"model": "other"}, anthropic.NotFoundError, "unknown model other"), ({"tools": tools, "tool_choice": {"type": "sometimes"}}, anthropic.BadRequestError, "tool_choice"),
    ({"extra_body": {"temperature": -1}}, anthropic.BadRequestError, "temperature"), ({"messages": [{"role": "critic", "content": ""}]}, anthropic.BadRequestError, "critic"),
    ({"extra_body": {"mcp_servers": [{}]}}, anthropic.BadRequestError, "mcp_servers"),
):
    for create in (client.messages.create, lambda **a: streamed(**a)):
        try:
            create(**{**ask, **wrong})
            raise SystemExit("it was not refused: %s" % wrong)
        except status as e:
            assert words in e.body["error"]["message"] and e.body["type"] == "error" and e.body["request_id"] == e.request_id, e.body
for header in ({"api_key": "wrong"}, {"auth_token": "wrong"}):
    try:
        anthropic.Anthropic(base_url=sys.argv[1], max_retries=0, **header).messages.create(**ask)
        raise SystemExit("a wrong key was taken")
    except anthropic.AuthenticationError:
        pass
assert anthropic.Anthropic(base_url=sys.argv[1], auth_token=sys.argv[2]).messages.create(**ask).content

print("all is well with", anthropic.__version__)
