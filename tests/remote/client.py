"""The `openai` Python package as a client:  python3 tests/remote/client.py ADDRESS KEY"""
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], timeout=300, max_retries=0)
model = client.models.list().data[0].id
ask = {"model": model, "messages": [{"role": "user", "content": "What is 6*7?"}], "temperature": 0}
whole = client.chat.completions.create(**ask, logprobs=True, top_logprobs=2)
answer = whole.choices[0].message.content
assert "".join(t.token for t in whole.choices[0].logprobs.content) == answer
assert whole.usage.completion_tokens > 0 and whole.choices[0].finish_reason == "stop"
chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == answer
assert chunks[-1].usage.prompt_tokens_details.cached_tokens > 0
tools = [
    {"type": "function", "function": {"name": "clock", "description": "Tells the current date and time.", "parameters": {"type": "object", "properties": {
        "zone": {"type": "string", "description": "IANA time zone, for example Europe/Paris; local time if absent"}}, "required": []}}},
    {"type": "function", "function": {"name": "calculator", "description": "Evaluates an arithmetic expression.", "parameters": {
        "type": "object", "properties": {"expression": {"type": "string", "description": "for example (3 + 4) * 12"}}, "required": ["expression"]}}}]
talk = [{"role": "user", "content": "What is 12*12? Use the calculator."}]
first = client.chat.completions.create(model=model, messages=talk, tools=tools, temperature=0).choices[0]
assert first.finish_reason == "tool_calls", first
call = first.message.tool_calls[0]
talk += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "144"}]
second = client.chat.completions.create(model=model, messages=talk, tools=tools, temperature=0).choices[0]
assert "144" in second.message.content, second
turn = "<|im_start|>user\nWhat is 6*7?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
plain = client.completions.create(model=model, prompt=turn, temperature=0, max_tokens=100, logprobs=1)
assert "".join(plain.choices[0].logprobs.tokens) == plain.choices[0].text != "" and plain.choices[0].finish_reason == "stop"
parts = list(client.completions.create(model=model, prompt=turn, temperature=0, max_tokens=100, stream=True))
assert "".join(p.choices[0].text for p in parts) == plain.choices[0].text
assert whole.usage.completion_tokens_details.reasoning_tokens > 0 and "6 * 7" in answer
brief = client.chat.completions.create(**{**ask, "messages": [{"role": "developer", "content": "Be kind."}, {"role": "developer", "content": "Be brief."}] +
    ask["messages"]}, reasoning_effort="none")
assert brief.usage.completion_tokens_details.reasoning_tokens == 0 and brief.choices[0].message.content
talk[1] = {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "12*'}}]}
assert client.chat.completions.create(model=model, messages=talk, tools=tools, temperature=0, parallel_tool_calls=False).choices[0].message
picture = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]
for wrong, status in (({"messages": picture}, openai.BadRequestError), ({"extra_body": {"guided_json": {}, "grammar": "x"}}, openai.BadRequestError), ({"n": 2}, openai.BadRequestError), ({"model": "other"}, openai.NotFoundError)):
    try:
        client.chat.completions.create(**{**ask, **wrong})
        raise SystemExit("it was not refused")
    except status:
        pass
try:
    openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="wrong", max_retries=0).models.list()
    raise SystemExit("a wrong key was taken")
except openai.AuthenticationError:
    pass
print("all is well with", openai.__version__)
