"""What strangers and clumsy clients do to a server, and what the others see meanwhile.

    python3 tests/remote/gate.py SOCKET PORT KEY PID NAME
"""
import http.client
import json
import os
import select
import socket
import subprocess
import sys
import time

SOCKET, PORT, KEY, PID = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
TRUSTED = b"Host: localhost\r\nAuthorization: Bearer " + KEY.encode() + b"\r\n"
QUESTION = json.dumps({"messages": [{"role": "user", "content": "What is 6*7?"}], "temperature": 0, "max_tokens": 8}).encode()


# What a q35chat sends with each of its requests.
SAMPLING = {"temperature": 1, "top_p": 1, "min_p": 0, "presence_penalty": 0, "repetition_penalty": 1, "top_k": 0, "seed": 1, "max_tokens": -1,
            "draft_depth": 0, "lookup": False, "likely": 0, "logit_bias": {}}


def connected(tcp=True):
    s = socket.socket(socket.AF_INET if tcp else socket.AF_UNIX)
    s.settimeout(60)
    while True:
        try:
            s.connect(("127.0.0.1", PORT) if tcp else SOCKET)
            return s
        except BlockingIOError:         # the backlog is full for a moment
            time.sleep(0.01)


def everything(s):
    """All that comes until the end of the connection."""
    got = b""
    try:
        while piece := s.recv(65536):
            got += piece
    except ConnectionResetError:
        pass
    return got


def raw(data, tcp=True):
    s = connected(tcp)
    try:
        s.sendall(data)
    except OSError:
        pass                            # refused before the end
    return everything(s)


def status(reply):
    return int(reply.split(b" ", 2)[1]) if reply else None


def sentence(reply):
    return json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["message"]


def request_id(reply):
    head = {x.split(b": ")[0].lower(): x.split(b": ")[1].decode() for x in reply.split(b"\r\n\r\n")[0].split(b"\r\n")[1:]}
    assert head[b"request-id"] == head[b"x-request-id"] and head[b"request-id"].startswith("req_"), reply
    return head[b"request-id"]


def get(path, head=TRUSTED, method=b"GET", tcp=True):
    return raw(method + b" " + path.encode() + b" HTTP/1.1\r\nConnection: close\r\n" + head + b"\r\n", tcp)


def post(path, body, head=TRUSTED, tcp=True):
    return raw(b"POST " + path.encode() + b" HTTP/1.1\r\nConnection: close\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body, tcp)


def megabytes():
    with open("/proc/%s/status" % PID) as f:
        return int(next(x for x in f if x.startswith("VmRSS")).split()[1]) / 1024


def seconds(ask):
    begun = time.monotonic()
    reply = ask()
    assert status(reply) == 200, reply
    return time.monotonic() - begun


def own():
    return raw(b"GET /health HTTP/1.1\r\nHost: l\r\nConnection: close\r\n\r\n", False)


def health():
    return json.loads(own().split(b"\r\n\r\n", 1)[1])


def wait_for(what):
    for _ in range(600):
        if what():
            return True
        time.sleep(0.1)
    return False


def bodies():
    """40 bodies of 60 MiB without a key: each is refused at its head, and takes no memory."""
    before, all = megabytes(), []
    for i in range(40):
        s = connected()
        s.sendall((b"POST", b"PUT", b"GET", b"POST")[i % 4] + b" /%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n"
                  % (b"health" if i % 4 == 3 else b"v1/completions", b"evil.example" if i % 2 else b"localhost", 60 << 20))
        all.append(s)
    for i, s in enumerate(all):
        assert status(s.recv(1000)) == (401, 403, 401, 403)[i % 4]
    chunked = connected()
    chunked.sendall(b"POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert status(everything(chunked)) == 405
    assert megabytes() < before + 20, (before, megabytes())
    print("refused at the head")


def early():
    """A client that is refused at its head, and sends its body all the same, gets the reply; the rest of its request is bounded."""
    before = len(os.listdir("/proc/%s/fd" % PID))
    wrong, size = b"Host: localhost\r\nAuthorization: Bearer wrong\r\n", 60000
    for tcp, code, method, path, head in (
        (True, 401, b"POST", b"v1/messages", wrong), (True, 403, b"POST", b"v1/completions", b"Host: evil.example\r\n"), (True, 404, b"POST", b"v2", TRUSTED),
        (True, 405, b"PUT", b"v1/models", TRUSTED), (True, 413, b"GET", b"v1/models", TRUSTED), (True, 415, b"POST", b"tokenize", TRUSTED + b"Content-Encoding: br\r\n"),
        (False, 404, b"POST", b"v2", b"Host: l\r\n"), (False, 405, b"POST", b"health", b"Host: l\r\n"),
    ):
        s = connected(tcp)
        s.sendall(method + b" /" + path + b" HTTP/1.1\r\n" + head + b"Content-Length: %d\r\n\r\n" % size)
        assert select.select([s], [], [], 60)[0], "the reply does not wait for the body"
        for _ in range(6):
            s.sendall(b"a" * (size // 6))
        reply = b""
        while piece := s.recv(65536):   # to the end, and no reset
            reply += piece
        assert status(reply) == code and reply.endswith(b"}"), reply
        c = http.client.HTTPConnection("localhost", PORT)
        if not tcp:
            c.sock = connected(tcp)
        c.request(method.decode(), "/" + path.decode(), b"a" * size, dict(x.split(": ", 1) for x in head.decode().strip().split("\r\n")))
        assert c.getresponse().status == code
    huge = connected()
    huge.sendall(b"POST /v2 HTTP/1.1\r\n" + TRUSTED + b"Content-Length: %d\r\n\r\n" % (60 << 20))
    try:
        huge.sendall(b"a" * (60 << 20))
        raise SystemExit("60 MiB were read")
    except OSError:
        pass
    idle = []
    for _ in range(100):                # which send no body, and do not close
        idle.append(connected())
        idle[-1].sendall(b"POST /v2 HTTP/1.1\r\n" + TRUSTED + b"Content-Length: 10\r\n\r\n")
        assert status(everything(idle[-1])) == 404
    assert wait_for(lambda: len(os.listdir("/proc/%s/fd" % PID)) <= before), os.listdir("/proc/%s/fd" % PID)
    print("always answered")


def slow():
    """256 connections without a key that send a byte now and then: the unix socket and those with a key are answered, and the oldest hear why."""
    all = []
    for _ in range(256):
        s = connected()
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nX: ")
        all.append(s)
    unix, keyed = 0, 0
    for _ in range(10):
        for s in all:
            try:
                s.sendall(b"x")
            except OSError:
                pass
        unix = max(unix, seconds(own))
        keyed = max(keyed, seconds(lambda: get("/v1/models")))
    assert unix < 5 and keyed < 10, (unix, keyed)       # a second and less, but for a loaded machine
    assert wait_for(lambda: health()["clients"] <= 33)
    oldest = everything(all[0])
    assert b"HTTP/1.1 503" in oldest and b"have not sent a key" in oldest and b"Retry-After: " in oldest, oldest
    print("others are answered")
    print("unix socket %.0f ms, with the key %.0f ms" % (1e3 * unix, 1e3 * keyed), file=sys.stderr)


def keyed():
    """More connections with the key than there are places: an idle one makes room; when all are in use, a sentence says so."""
    idle = []
    for _ in range(120):
        s = connected()
        s.sendall(b"GET /v1/models HTTP/1.1\r\n" + TRUSTED + b"\r\n")
        assert status(s.recv(100)) == 200
        idle.append(s)
    assert wait_for(lambda: health()["clients"] <= 97)
    busy = []
    for _ in range(96):
        s = connected()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\n" + TRUSTED + b"Content-Length: 10\r\n\r\n{")
        busy.append(s)
    late = wait_for(lambda: status(get("/v1/models")) == 503) and get("/v1/models")
    assert "96 connections with the key" in sentence(late) and b"Retry-After" in late, late
    assert status(own()) == 200
    for s in busy + idle:
        s.close()
    assert wait_for(lambda: health()["clients"] == 1)
    print("in their places")


def memory():
    """Bodies that are announced take no more memory together than their share has."""
    most, all, replies = 0, [], []
    for i in range(90):
        s = connected()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\n" + TRUSTED + b"Content-Length: %d\r\n\r\n" % (5 << 20))
        all.append(s)
    refused = [s for s in all if select.select([s], [], [], 0.02)[0]]
    assert 60 < len(refused) < 70, len(refused)
    assert status(refused[0].recv(1000)) == 503
    assert status(own()) == 200
    for s in all:
        s.close()
    assert wait_for(lambda: status(post("/v1/completions", b"{}")) == 400)
    print("bounded")


def left():
    """Clients that leave in the middle of a request keep no place."""
    for tcp in (True, False):
        for part in (b"GET /health HT", b"POST /v1/completions HTTP/1.1\r\n" + TRUSTED + b"Content-Length: 1000\r\n\r\n{\"a",
                     b"POST /v1/completions HTTP/1.1\r\n" + TRUSTED + b"Transfer-Encoding: chunked\r\n\r\n40\r\n{"):
            for _ in range(5):
                s = connected(tcp)
                s.sendall(part)
                s.close()
    begun = time.monotonic()
    assert wait_for(lambda: health()["clients"] == 1)
    assert time.monotonic() - begun < 20        # not the minute that a request may take
    print("gone")


def halfclosed():
    """A client that shuts its sending side after the request gets its answer; one that has closed does not keep an answer going."""
    endless = json.dumps({"prompt": "a", "max_tokens": 30000, "logit_bias": banned()}).encode()
    for tcp in (True, False):
        together = [connected(tcp) for _ in range(12)]      # whose streams begin after a wait
        for s in together:
            streamed = QUESTION[:-1] + b', "stream": true}'
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + TRUSTED + b"Content-Length: %d\r\n\r\n" % len(streamed) + streamed)
            s.shutdown(socket.SHUT_WR)
        assert all(b"[DONE]" in everything(s) for s in together), tcp
        for version in (b"1.1", b"1.0"):
            for path, body in ((b"/v1/chat/completions", QUESTION), (b"/v1/chat/completions", QUESTION[:-1] + b', "stream": true}')):
                s = connected(tcp)
                s.sendall(b"POST " + path + b" HTTP/" + version + b"\r\n" + TRUSTED + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                s.shutdown(socket.SHUT_WR)
                reply = everything(s)
                assert status(reply) == 200 and b"finish_reason" in reply, (tcp, version, reply)
        for shuts in (False, True):
            s = connected(tcp)
            s.sendall(b"POST /v1/completions HTTP/1.1\r\n" + TRUSTED + b"Content-Length: %d\r\n\r\n" % len(endless) + endless)
            if shuts:
                s.shutdown(socket.SHUT_WR)
            assert wait_for(lambda: health()["running"] == 1)
            time.sleep(0.3 if shuts else 0)
            assert health()["running"] == 1
            s.close()
            assert wait_for(lambda: health()["running"] == 0), (tcp, shuts)
    print("answered")


def banned():
    reply = [post("/tokenize", json.dumps({"content": w, "parse_special": True}).encode()) for w in ("<|im_end|>", "<|endoftext|>")]
    return {t: -100 for r in reply for t in json.loads(r.split(b"\r\n\r\n", 1)[1])["tokens"]}


def watch():
    """Asks until stdin ends, and prints the longest time of an answer."""
    worst = 0
    while not select.select([sys.stdin], [], [], 0.005)[0]:
        worst = max(worst, seconds(own))
    print(worst)


def limits():
    """Requests that no context can hold are refused, and nobody waits for them; nor for one that fills the context."""
    watcher = subprocess.Popen([sys.executable, *sys.argv[:5], "watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    before, peak = megabytes(), 0
    for code, words, path, body in (
        (413, "the body has more than", "/tokenize", b'{"prompt":"' + b"a" * (60 << 20) + b'"}'),
        (413, "the body has more than", "/v1/completions", b'{"prompt":[' + b"0," * (31 << 20) + b"0]}"),
        (413, "the body has more than", "/detokenize", b'{"tokens":[' + b"0," * (8 << 20) + b"0]}"),
        (400, "values", "/v1/completions", b'{"prompt":[' + b"0," * (1 << 20) + b"0]}"),
        (400, "values", "/detokenize", b'{"tokens":[' + b"0," * (1 << 20) + b"0]}"),
        (400, "values", "/v1/chat/completions", b'{"messages":[' + b"[]," * (1 << 20) + b"[]]}"),
        (400, "more than the context can hold", "/tokenize", b'{"prompt":"' + b"a" * (2 << 20) + b'"}'),
        (400, "maximum context length is", "/v1/completions", json.dumps({"prompt": "a " * 40000}).encode()),
        (400, "maximum context length is", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": "word " * 400000}]}).encode()),
        (200, "", "/tokenize", b'{"prompt":"' + b"a" * 600000 + b'"}'),
        (400, "tokens has 90001 tokens, the context holds", "/detokenize", b'{"tokens":[' + b"5," * 90000 + b"5]}"),
        (200, "", "/detokenize", b'{"tokens":[' + b"5," * 30000 + b"5]}"),
        (400, "longer than its context", "/v1/chat/completions", b'{"continue_final_message":true,"messages":[{"role":"user","content":"x"},'
                                                                 b'{"role":"assistant","content":"' + b"a" * (3 << 20) + b'"}]}'),
        (400, "is no token", "/v1/chat/completions", b'{"logit_bias":{"' + b"a" * (3 << 20) + b'":1},"messages":[{"role":"user","content":"x"}]}'),
    ):
        reply = post(path, body, tcp=False)
        peak = max(peak, megabytes())
        assert status(reply) == code and (code == 200 or words in sentence(reply)), (path, code, words, reply[:300])
    worst = float(watcher.communicate(b"")[0])
    assert worst < 3, worst             # 0.1 s, but for a loaded machine
    assert peak < before + 300, (before, peak)          # sanitizers keep what was freed
    print("refused")
    print("others waited for %.0f ms, %.0f MB more" % (1e3 * worst, peak - before), file=sys.stderr)


def large():
    """A request with a large body, which is read on a thread, has the answer of a small one; clients that leave meanwhile take nothing along."""
    pad = {"metadata": "x" * 200000}
    tool = {"type": "function", "function": {"name": "calculator", "description": "Evaluates.", "parameters": {"type": "object", "properties": {
        "expression": {"type": "string"}}, "required": ["expression"]}}}
    user = {"role": "user", "content": "What is 12*12? Use the calculator."}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "12*12"}'}}]}
    talk = [user, call, {"role": "tool", "tool_call_id": "c", "content": "144"}]
    for path, body in (
        ("/v1/chat/completions", {"messages": [user], "tools": [tool]}), ("/v1/chat/completions", {"messages": talk, "tools": [tool]}),
        ("/v1/chat/completions", {"messages": [user], "chat_template_kwargs": {"enable_thinking": False}}),
        ("/v1/chat/completions", {"messages": [user, {"role": "assistant", "content": "It is"}], "continue_final_message": True, "enable_thinking": False}),
        ("/v1/completions", {"prompt": "One, two, three,"}), ("/tokenize", {"messages": talk, "tools": [tool]}), ("/tokenize", {"prompt": "a b c"}),
        ("/detokenize", {"tokens": [5, 6, 7]}), ("/v1/chat/completions", {"messages": []}), ("/v1/completions", {"prompt": 3}),
        ("/v1/completions", {"prompt": "a", "model": "other"}),
    ):
        both = [post(path, json.dumps({**body, "temperature": 0, "max_tokens": 24, **more}).encode()) for more in ({}, pad)]
        told = [json.loads(x.split(b"\r\n\r\n", 1)[1]) for x in both]
        for x in told:
            for of_each in ("id", "created", "timings", "usage"):
                x.pop(of_each, None)
            for choice in x.get("choices", []):
                for n, c in enumerate(choice.get("message", {}).get("tool_calls", [])):
                    c["id"] = n
        assert status(both[0]) == status(both[1]) and told[0] == told[1], (path, body, both)
    held = []
    for i in range(30):
        s = connected()
        body = json.dumps({"prompt": "word " * 20000, "max_tokens": 1}).encode()
        s.sendall(b"POST /%s HTTP/1.1\r\n" % (b"tokenize" if i % 2 else b"v1/completions") + TRUSTED + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        held.append(s)
    for s in held:
        s.close()
    assert wait_for(lambda: health() == {**health(), "clients": 1, "running": 0, "waiting": 0})
    ids, at_once = [5] * 20000, 0
    for i in range(8):                  # an answer that is interrupted while its request is being read ends, too
        name = "%d-1" % i
        s = connected(False)
        body = json.dumps({"id": name, "conversation": i, "prompt": ids, "snapshot_pos": 0, "answer_prefix": 0, **SAMPLING, "max_tokens": 20000}).encode()
        s.sendall(b"POST /q35chat/answer HTTP/1.1\r\nHost: l\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        assert wait_for(lambda: health()["clients"] > 1)
        post("/q35chat/interrupt", json.dumps({"id": name}).encode(), b"Host: l\r\n", False)
        at_once += bool(select.select([s], [], [], 3)[0])
        post("/q35chat/interrupt", json.dumps({"id": name}).encode(), b"Host: l\r\n", False)     # the first may have overtaken the request itself
        assert b'"interrupted"' in everything(s)
    assert at_once >= 4, at_once
    print("the same")


def full(*program):
    """All places of the unix socket are in use: a program says so and loads no second model; TCP is answered."""
    busy = []
    for _ in range(256):
        s = connected(False)
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: l\r\nContent-Length: 10\r\n\r\n{")
        busy.append(s)
    assert wait_for(lambda: status(own()) == 503)
    assert "256 programs are connected" in sentence(own())
    late = connected(False)
    assert status(everything(late)) == 503
    late.sendall(b"GET /health HTTP/1.1\r\nHost: l\r\n\r\n")     # the reply came first, and yet there is no error
    assert status(get("/v1/models")) == 200
    p = subprocess.run(program, capture_output=True, text=True)
    assert p.returncode == 3 and "--no-attach" in p.stderr and not p.stdout, p
    for s in busy:
        s.close()
    assert wait_for(lambda: health().get("clients") == 1)       # at first it may be one too many itself
    print("full")


def forms():
    """Forms of requests that clients use, and those that two programs in a row could read in two ways."""
    k = KEY.encode()
    for scheme in (b"bearer " + k, b"BEARER  " + k, b"Bearer \t " + k + b" "):
        assert status(get("/v1/models", b"Host: localhost\r\nAuthorization: " + scheme + b"\r\n")) == 200, scheme
    for scheme in (b"Bearer" + k, b"Basic " + k, b"Bearer " + k + b" x", b"Bearer", b""):
        reply = get("/v1/models", b"Host: localhost\r\nAuthorization: " + scheme + b"\r\n")
        assert status(reply) == 401 and b'"code": "invalid_api_key"' in reply, reply
    model = json.loads(get("/v1/models").split(b"\r\n\r\n", 1)[1])["data"][0]
    assert abs(time.time() - model["created"]) < 600, model
    for path in ("/v1/models/" + model["id"], "/v1/models/" + model["id"] + "/"):
        assert json.loads(get(path).split(b"\r\n\r\n", 1)[1]) == model
    other = get("/v1/models/other")
    assert status(other) == 404 and "unknown model other; this server has demo" in sentence(other)
    assert status(get("/v1/models/")) == status(get("/health/")) == 200 and status(get("/health//x")) == 404
    head = get("/v1/models", method=b"HEAD")
    assert status(head) == 200 and head.endswith(b"\r\n\r\n") and b"Content-Length: 0" not in head, head
    assert status(get("/v1/completions", method=b"HEAD")) == 405
    for path, method, allow in (("/v1/completions", b"GET", b"POST"), ("/v1/models", b"DELETE", b"GET, HEAD"), ("/v1/models", b"PUT", b"GET, HEAD")):
        reply = get(path, TRUSTED + (b"Content-Length: 2\r\n" if method == b"PUT" else b""), method)
        assert status(reply) == 405 and b"\r\nAllow: " + allow + b"\r\n" in reply, reply
    hosts = get("/v1/models", b"Host: example.org\r\n" + TRUSTED)
    assert status(hosts) == 400 and "more than one Host" in sentence(hosts), hosts
    for body, param in ((b'{"prompt": 5}', "prompt"), (b'{"prompt": "a", "seed": "b"}', "seed"), (b"[]", None), (b'{"prompt": "a", "n": 2}', "n"),
                        (b'{"prompt": "a", "model": "other"}', "model")):
        reply = post("/v1/completions", body)
        assert json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]["param"] == param, reply
    replies = [get("/health"), get("/nothing"), get("/v1/models", b""), post("/v1/completions", b"{"), post("/tokenize", b"{}", TRUSTED + b"Content-Encoding: gzip\r\n")]
    assert len({request_id(x) for x in replies}) == len(replies)
    asks = {"model": "demo", "max_tokens": 2, "messages": [{"role": "user", "content": "x"}]}
    for path, body, head in (("/v1/messages", asks, TRUSTED), ("/v1/messages", {**asks, "stream": True}, TRUSTED), ("/v1/messages", asks, b"Host: localhost\r\n"),
                             ("/v1/messages", {**asks, "model": "other"}, TRUSTED), ("/v1/messages/count_tokens", {}, TRUSTED), ("/v1/messages/x", {}, TRUSTED)):
        reply = post(path, json.dumps(body).encode(), head)
        assert status(reply) == 200 or json.loads(reply.split(b"\r\n\r\n", 1)[1])["request_id"] == request_id(reply), reply
        assert (b"\r\nX-Accel-Buffering: no\r\n" in reply) == ("stream" in body), reply
    for path, tools, note in (("messages", [{"type": "computer_1", "name": "co\u00e9\n"}, {"type": "bash_1"}], b"co???, bash_1"), ("responses", [{"type": "web_search"}], b"web_search"),
                              ("messages", [{"name": "f", "input_schema": {"type": "object"}}], None)):
        for more in ({}, {"stream": True}, {"model": "other"}):
            reply = post("/v1/" + path, json.dumps({**asks, "max_output_tokens": 2, "input": "x", "tools": tools, **more}).encode())
            wanted = note and b"\r\nx-q35chat-note: tools that other servers run are left out: " + note + b"\r\n"
            assert wanted in reply if note else b"q35chat-note" not in reply, reply
    huge = b"%x\r\n" % (1 << 20) + b"a" * (1 << 20) + b"\r\n"
    reply = raw(b"POST /v1/messages HTTP/1.1\r\n" + TRUSTED + b"Transfer-Encoding: chunked\r\n\r\n" + 7 * huge)
    assert status(reply) == 413 and json.loads(reply.split(b"\r\n\r\n", 1)[1])["request_id"] == request_id(reply), reply
    assert status(replies[-1]) == 415 and "Content-Encoding" in sentence(replies[-1])
    assert status(post("/v1/completions", b"{", TRUSTED + b"Content-Encoding: identity\r\n")) == 400
    for code, lengths in (
        (400, b"Content-Length: 2\r\nContent-Length: 3\r\n"), (400, b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"),
        (501, b"Transfer-Encoding: gzip, chunked\r\n"), (501, b"Transfer-Encoding: identity\r\n"),
    ):
        reply = raw(b"POST /tokenize HTTP/1.1\r\n" + TRUSTED + lengths + b"\r\n2\r\n{}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(reply) in (400, code) and reply.count(b"HTTP/1.1 ") == 1, (lengths, reply)     # 400: from libmicrohttpd
    assert "no body" in sentence(raw(b"GET /v1/models HTTP/1.1\r\n" + TRUSTED + b"Content-Length: 2\r\n\r\n{}"))
    refused = raw(b"GET /v1/models HTTP/1.1\r\n" + TRUSTED + b"Content-Length: 40\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(refused) == 413 and refused.count(b"HTTP/1.1 ") == 1, refused
    for name in (b"Content-Length : 47", b"Transfer-Encoding\t: chunked"):
        blank = raw(b"POST /tokenize HTTP/1.1\r\n" + TRUSTED + name + b"\r\n\r\nGET /v1/models HTTP/1.1\r\n" + TRUSTED + b"\r\n")
        assert status(blank) == 400 and "has a blank" in sentence(blank) and blank.count(b"HTTP/1.1 ") == 1, blank
    print("understood")


globals()[sys.argv[5]](*sys.argv[6:])
