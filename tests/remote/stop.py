"""Asks in each dialect, streamed and whole, ends the server in the middle, and prints how the replies ended: one line each.

    python3 tests/remote/stop.py SOCKET COMMAND...
"""
import json
import socket
import subprocess
import sys
import time

LONG = {"type": "object", "properties": {"a": {"type": "string", "minLength": 20000}}, "required": ["a"]}
NAMED = {"type": "json_schema", "json_schema": {"name": "long", "schema": LONG}}
TALK = {"messages": [{"role": "user", "content": "Write."}], "think": False}
ASKED = (
    ("/v1/chat/completions", {**TALK, "response_format": NAMED}, '"content"'),
    ("/v1/completions", {"prompt": "{", "max_tokens": -1, "response_format": NAMED}, '"text"'),
    ("/v1/messages", {"messages": TALK["messages"], "max_tokens": 20000, "output_config": {"format": {"type": "json_schema", "schema": LONG}}},
     "text_delta"),
    ("/v1/responses", {"input": "Write.", "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema", "name": "long", "schema": LONG}}},
     "output_text.delta"),
    ("/api/chat", {**TALK, "format": LONG}, '"content"'),
)


def ask(path, body):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(100)
    s.connect(sys.argv[1])
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    return s


def read(s, until=None):
    """Reads a reply to its end, or until it has the words."""
    data = b""
    while until is None or until.encode() not in data:
        more = s.recv(65536)
        if not more:
            break
        data += more
    return data


def unchunked(data):
    """The body of a stream, and whether it ended as chunks do."""
    body = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        n = int(size or b"0", 16)
        if not n:
            return body, True
        body, data = body + data[:n], data[n + 2:]
    return body, False


def ending(data):
    """The status, whether the body came whole, and its last event or line without the sentence."""
    head, _, body = data.partition(b"\r\n\r\n")
    status = head.split(b" ")[1].decode() if head else "none"
    if b"chunked" in head:
        body, whole = unchunked(body)
        status += " whole" if whole else " broken"
    last = body.decode().rstrip("\n").split("\n\n")[-1].splitlines()
    event = last[0] + " " if last and last[0].startswith("event") else ""
    said = json.loads(last[-1].removeprefix("data: ")) if last else {}
    error = said.get("error") or said.get("response", {}).get("error") or {}
    text = error if isinstance(error, str) else error.get("message", "")
    return status + " " + event + ("error" if "is stopping" in text else repr(said))


streams = [(path, ask(path, {**body, "stream": True}), word) for path, body, word in ASKED]
begun = [read(s, word) for _, s, word in streams]
whole = [(path, ask(path, {**body, "stream": False})) for path, body, _ in ASKED]
half = socket.socket(socket.AF_UNIX)
half.connect(sys.argv[1])
half.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
time.sleep(0.2)
subprocess.run(sys.argv[2:], check=True)
for (path, s, _), data in zip(streams, begun):
    print("stream", path, ending(data + read(s)))
for path, s in whole:
    print("whole", path, ending(read(s)))
print("half /v1/messages", ending(read(half)))
