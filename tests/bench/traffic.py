#!/usr/bin/env python3
"""Mixed traffic in all dialects against one server, by hand: clients that leave, kills and restarts, counters afterwards.

usage: traffic.py PROGRAM MODEL [MINUTES [SEED]]      SERVE_OPTIONS in the environment: more options of `q35chat serve`

Two conversations grow turn by turn, each turn in another dialect; six other clients send short requests of every kind, some of them wrong, and some
leave in the middle of an answer.  Every 20 to 60 seconds the server is killed with -9 or stopped, and started again.
  - each request gets a status, and each stream its end, unless the server was killed or stopped meanwhile, or the queue was full;
  - a turn of a conversation begins with the tokens of the one before: they are in memory, unless the server is a new one;
  - when nobody asks, nothing runs, waits or is connected, and the server has counted each request once;
  - a server that is stopped ends with status 0, without a word of a sanitizer.
Prints the figures, the memory of the first server and the most of the later ones among them, and a line for each fault; the status is 1 if there is
one.
"""
import collections
import http.client
import json
import os
import random
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, MODEL = os.path.abspath(sys.argv[1]), sys.argv[2]
MINUTES = float(sys.argv[3]) if len(sys.argv) > 3 else 60
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else 1
N_CLIENTS, N_TALKS, PATIENCE, LONGEST_TALK, KEY = 6, 2, 300, 6000, "k" * 20
QUESTIONS = ("one two three", "What is 6*7?", "Write a list of colours.", "Count to ten.", "Tell me about Rome.")
TOOL = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}

home = tempfile.mkdtemp(prefix="q35chat-traffic-")
port = (lambda s: (s.bind(("127.0.0.1", 0)), s.getsockname()[1]))(socket.socket())[1]
environment = {**os.environ, "XDG_RUNTIME_DIR": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home, "XDG_DATA_HOME": home}
path = home + "/q35chat/serve.sock"
os.mkdir(home + "/q35chat", 0o700)
with open(os.open(home + "/key", os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
    f.write(f"laptop {KEY}\n")


class Life:
    """A server from its start to its end.  over: it was killed or stopped, or is about to be."""
    def __init__(self):
        self.log = open(f"{home}/log", "w+")
        command = [PROGRAM, "serve", "--model", MODEL, "--listen", f"127.0.0.1:{port}", "--key-file", home + "/key", "--keep", "0", "--queue", "16"]
        self.process = subprocess.Popen(command + shlex.split(os.environ.get("SERVE_OPTIONS", "")), env=environment, stderr=self.log)
        self.counted, self.over, self.kb = 0, False, None

    def said(self):
        self.log.flush()
        return open(self.log.name).read()


lock, faults, figures = threading.Lock(), [], collections.Counter()
life, hush, over = None, threading.Event(), threading.Event()
at_rest = collections.Counter()


def fault(text):
    with lock:
        faults.append(text)
        print(time.strftime("%H:%M:%S"), text, flush=True)


def connect(tcp):
    c = http.client.HTTPConnection("127.0.0.1" if tcp else "localhost", port, timeout=PATIENCE)
    if not tcp:
        c.sock = socket.socket(socket.AF_UNIX)
        c.sock.settimeout(PATIENCE)
        c.sock.connect(path)
    return c


def get(where):
    c = connect(False)
    c.request("GET", where)
    text = c.getresponse().read().decode()
    c.close()
    return text


def metrics():
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in get("/metrics").splitlines() if line and line[0] != "#")}


# ---- the dialects: each makes a body of turns (role, text), and reads the objects of a reply

def chat(turns, n, streams):
    return "/v1/chat/completions", {"messages": [{"role": r, "content": t} for r, t in turns], "max_tokens": n, "stream": streams,
                                    "stream_options": {"include_usage": True}, "enable_thinking": False}


def messages(turns, n, streams):
    return "/v1/messages", {"messages": [{"role": r, "content": [{"type": "text", "text": t}]} for r, t in turns], "max_tokens": n,
                            "stream": streams}


def responses(turns, n, streams):
    return "/v1/responses", {"input": [{"role": r, "content": [{"type": "output_text" if r == "assistant" else "input_text", "text": t}]}
                                       for r, t in turns], "max_output_tokens": n, "stream": streams, "reasoning": {"effort": "none"}}


def ollama(turns, n, streams):
    return "/api/chat", {"messages": [{"role": r, "content": t} for r, t in turns], "options": {"num_predict": n}, "stream": streams,
                         "think": False}


def text_of(o):
    """The text of an object of any dialect, whole or a part of a stream."""
    if o.get("type") == "response.output_text.delta":
        return o["delta"]
    if "choices" in o:
        return "".join((c.get("delta") or c.get("message") or {}).get("content") or c.get("text") or "" for c in o["choices"])
    if o.get("type") == "content_block_delta":
        return o["delta"].get("text", "")
    parts = o.get("content") or [p for i in o.get("output", []) for p in i.get("content", [])]
    return "".join(p.get("text", "") for p in parts) + (o.get("message", {}).get("content", "") if "done" in o else "") + o.get("response", "") \
        if isinstance(o.get("response", ""), str) else ""


def usage_of(o):
    """(tokens of the prompt, those that were in memory), or None."""
    u = o.get("usage") or o.get("message", {}).get("usage") or (o["response"].get("usage") if isinstance(o.get("response"), dict) else None)
    if not u:
        return None
    if "prompt_tokens" in u:
        return u["prompt_tokens"], u["prompt_tokens_details"]["cached_tokens"]
    if "input_tokens_details" in u:
        return u["input_tokens"], u["input_tokens_details"]["cached_tokens"]
    if "cache_read_input_tokens" in u:
        return u["input_tokens"] + u["cache_read_input_tokens"], u["cache_read_input_tokens"]


def has_ended(o):
    return o == "[DONE]" or isinstance(o, dict) and (o.get("type") in ("message_stop", "response.completed", "response.incomplete")
                                                     or o.get("done") is True)


def objects_of(reply):
    """The objects of a stream of events or lines."""
    for line in reply:
        line = line.decode().strip()
        if line.startswith("data: "):
            line = line[6:]
        elif not line.startswith("{"):
            continue
        yield line if line == "[DONE]" else json.loads(line)


def ask(where, body, expected=200, leaves=False, rng=random):
    """Sends a request.  Returns (text, usage, the server that answered), or None: it was full or has ended, or the client left."""
    mine, objects, status = life, [], None
    try:
        tcp = rng.random() < 0.5
        c = connect(tcp)
        c.request("POST", where, json.dumps(body), {"Authorization": "Bearer " + KEY} if tcp else {})
        reply = c.getresponse()
        status = reply.status
        with lock:
            mine.counted += where.startswith(("/v1/", "/api/")) and not where.endswith(("count_tokens", "show"))
            figures[f"{where} {status}"] += 1
        streams = body.get("stream", where.startswith("/api/")) and status == 200 and expected == 200
        for o in objects_of(reply) if streams else [json.loads(reply.read())]:
            objects.append(o)
            if leaves and len(objects) > rng.randrange(8):
                figures["left"] += 1
                c.close()
                return None
        c.close()
        failed = [o for o in objects if isinstance(o, dict) and (o.get("error") or o.get("type") in ("error", "response.failed"))]
        if status in (429, 503) or mine.over:
            figures["sent away"] += 1
            return None
        if status != expected or (failed and expected == 200) or (streams and not any(map(has_ended, objects))):
            fault(f"{where} {json.dumps(body)[:200]}: status {status}, {json.dumps(objects[-1:])[:300]}")
            return None
        objects = [o for o in objects if isinstance(o, dict)]
        return "".join(map(text_of, objects)), next(filter(None, map(usage_of, reversed(objects))), None), mine
    except (OSError, http.client.HTTPException, ValueError) as e:
        if not mine.over:
            fault(f"{where}: {e!r} after status {status} and {len(objects)} objects")
        time.sleep(0.2)
        return None


# ---- clients

def talk(number):
    """A conversation that grows, each turn in another dialect."""
    rng, dialects = random.Random(SEED * 100 + number), [chat, messages, responses, ollama]
    turns, before, server = [], 0, None
    while rests(number):
        if sum(len(t) for _, t in turns) > LONGEST_TALK:
            turns, before, server = [], 0, None
        question = ("user", f"{number}.{len(turns)} " + rng.choice(QUESTIONS) * rng.randrange(1, 8))
        got = ask(*rng.choice(dialects)(turns + [question], rng.randrange(8, 40), rng.random() < 0.7), rng=rng)
        if not got:
            continue
        text, usage, by = got
        if usage and server is by and before:
            figures["turns"] += 1
            figures["turns read again"] += usage[1] < before * 0.9
        before, server = usage[0] if usage else before if server is by else 0, by
        turns += [question, ("assistant", text or "nothing")]


def others(number):
    rng = random.Random(SEED * 100 + number)
    while rests(number):
        one, n, streams = [("user", f"{rng.randrange(1000)} " + rng.choice(QUESTIONS))], rng.randrange(1, 30), rng.random() < 0.6
        kind = rng.randrange(14)
        if kind < 5:
            ask(*rng.choice([chat, messages, responses, ollama])(one, n, streams), rng=rng)
        elif kind < 7:
            ask(*rng.choice([chat, messages, responses, ollama])(one, 200, True), leaves=True, rng=rng)
        elif kind == 7:
            ask("/v1/completions", {"prompt": "one two three", "max_tokens": n, "stream": streams, "logprobs": 2}, rng=rng)
        elif kind == 8:
            ask("/api/generate", {"prompt": one[0][1], "stream": streams, "raw": rng.random() < 0.5, "options": {"num_predict": n}}, rng=rng)
        elif kind == 9:
            where, body = rng.choice([chat, ollama])([("user", "What is 12*12? Use the calculator.")], 60, streams)
            ask(where, {**body, "tools": [{"type": "function", "function": {"name": "calculator", "parameters": TOOL}}]}, rng=rng)
        elif kind == 10:
            where, body = rng.choice([chat, messages, responses])(one, 40, streams)
            if where == "/v1/chat/completions":
                body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": TOOL}}
            elif where == "/v1/messages":
                body["output_config"] = {"format": {"type": "json_schema", "schema": TOOL}}
            else:
                body["text"] = {"format": {"type": "json_schema", "name": "x", "schema": TOOL}}
            ask(where, body, rng=rng)
        elif kind == 11:
            where, body = rng.choice([chat, messages, responses, ollama])(one, n, streams)
            ask(where, {**body, rng.choice(["stream", "model", "tools"]): {"wrong": 1}}, expected=400, rng=rng)
        elif kind == 12:
            ask("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "x " * rng.randrange(2000)}]}, rng=rng)
        else:
            ask("/v1/chat/completions", {**chat(one, n, False)[1], "model": "another"}, expected=404, rng=rng)


def rests(number):
    """Waits while nobody may ask.  False: the traffic is over."""
    at_rest[number] = 1
    while hush.is_set() and not over.is_set():
        time.sleep(0.02)
    at_rest[number] = 0
    return not over.is_set()


# ---- servers

def starts():
    global life
    life = Life()
    since = time.time()
    while time.time() - since < PATIENCE and life.process.poll() is None:
        try:
            if json.loads(get("/health"))["status"] == "ok":
                return True
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(0.05)
    fault("the server does not start: " + life.said()[-500:])
    return False


def memory():
    return int(next(line for line in open(f"/proc/{life.process.pid}/status") if line.startswith("VmRSS")).split()[1])


def quiet():
    """Has everybody wait, and compares what the server counted."""
    hush.set()
    since = time.time()
    while sum(at_rest.values()) < N_CLIENTS + N_TALKS and time.time() - since < PATIENCE:
        time.sleep(0.05)
    now = {}
    while time.time() - since < PATIENCE:
        now = metrics()
        if (now.get("q35chat_running"), now.get("q35chat_waiting"), now.get("q35chat_clients")) == (0, 0, 1):
            break
        time.sleep(0.1)
    else:
        fault(f"nobody asks, but {[(k, now.get(k)) for k in ('q35chat_running', 'q35chat_waiting', 'q35chat_clients')]}")
    if now.get("q35chat_requests_total") != life.counted:
        fault(f"the server counted {now.get('q35chat_requests_total')} requests, the clients {life.counted}")
    life.kb = memory()


def main():
    names = {i: talk if i < N_TALKS else others for i in range(N_TALKS + N_CLIENTS)}
    hush.set()
    if not starts():
        return 1
    threads = [threading.Thread(target=names[i], args=(i,), daemon=True) for i in names]
    for t in threads:
        t.start()
    rng, until, first = random.Random(SEED), time.time() + 60 * MINUTES, None
    while time.time() < until and life.process.poll() is None:
        hush.clear()
        time.sleep(min(rng.uniform(20, 60), max(5.0, until - time.time())))
        if life.process.poll() is not None:
            fault("the server has ended by itself: " + life.said()[-3000:])
            break
        if rng.random() < 0.4:          # in the middle of everything
            life.over = True
            life.process.kill()
            life.process.wait()
            figures["kills"] += 1
        else:
            quiet()
            first = first or life.kb
            figures["most kB"] = max(figures["most kB"], life.kb)
            if rng.random() < 0.5:
                hush.clear()
                time.sleep(2)
            life.over = True
            if subprocess.run([PROGRAM, "serve", "stop"], env=environment).returncode or life.process.wait(PATIENCE):
                fault(f"the server ended with status {life.process.returncode}")
            if any(word in life.said() for word in ("Sanitizer", "runtime error")):
                fault(life.said()[-5000:])
            figures["stops"] += 1
        hush.set()
        if time.time() < until and not starts():
            break
    over.set()
    for t in threads:
        t.join(PATIENCE)
    if life.process.poll() is None:
        life.over = True
        subprocess.run([PROGRAM, "serve", "stop"], env=environment)
        life.process.wait(PATIENCE)
    for name, n in sorted(figures.items()):
        print(f"{n:8} {name}")
    print(f"{first or 0:8} kB after the first while; {len(faults)} faults")
    return 1 if faults else 0


sys.exit(main())
