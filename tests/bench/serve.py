"""What a server costs beside its engine; tests/bench/serve.sh runs it.

    python3 tests/bench/serve.py first PROGRAM MODEL RUNS       a pipe call while a server runs: time to its first byte, without the engine's own time
    python3 tests/bench/serve.py client PROGRAM                 CPU time of a client that gets 500 tokens a second
    python3 tests/bench/serve.py server SOCKET PID              CPU time of the server's own thread for each token that it sends
"""
import http.server
import json
import resource
import socket
import subprocess
import sys
import threading
import time

RATE, SECONDS = 500, 10


def first(program, model, runs):
    over, cpu = [], []
    for _ in range(int(runs)):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        p = subprocess.Popen([program, "--model", model, "--no-stdin", "--no-think", "--jsonl", "-n", "8", "hello"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        at = None
        for line in p.stdout:
            event = json.loads(line)
            if event["type"] == "text" and at is None:
                at = (time.monotonic() - start) * 1000
        p.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        over.append(at - event["prefill_ms"])
        cpu.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    over.sort()
    cpu.sort()
    print("first byte of a pipe call, after the engine had it: %.0f ms (%.0f to %.0f); CPU of the whole call %.0f ms" % (
        over[len(over) // 2], over[0], over[-1], cpu[len(cpu) // 2]))


class Paced(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        body = json.dumps({"data": [{"id": "m", "owned_by": "vllm", "max_model_len": 1 << 18}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1770000000, "model": "m",
                 "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}]}
        data = b"data: " + json.dumps(chunk).encode() + b"\n\n"
        start = time.monotonic()
        for i in range(RATE * SECONDS):
            self.wfile.write(data)
            time.sleep(max(0, start + i / RATE - time.monotonic()))
        chunk["choices"][0].update(delta={}, finish_reason="stop")
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n")
        self.close_connection = True


def client(program):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Paced)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    start = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run([program, "--endpoint", "http://127.0.0.1:%d" % server.server_address[1], "--no-stdin", "--no-loop-guard", "x"], stdout=subprocess.PIPE).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert out.count(b"word") == RATE * SECONDS
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print("client: %d tokens in %.1f s, CPU %.2f s: %.1f %% of a core at %d tokens a second" % (
        RATE * SECONDS, time.monotonic() - start, cpu, cpu / SECONDS * 100, RATE))


def server(path, pid):
    def cpu_ns():
        with open("/proc/%s/task/%s/schedstat" % (pid, pid)) as f:
            return int(f.read().split()[0])
    body = json.dumps({"messages": [{"role": "user", "content": "hello"}], "stream": True, "temperature": 0, "presence_penalty": -10, "max_tokens": 2000,
                       "chat_template_kwargs": {"enable_thinking": False}})
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    before = cpu_ns()
    s.sendall(("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode())
    got = b""
    while True:
        piece = s.recv(1 << 16)
        if not piece:
            break
        got += piece
    tokens = json.loads(got[got.rindex(b'{"id"'):got.rindex(b"}") + 1].split(b"\n")[0])["timings"]["predicted_n"]
    each = (cpu_ns() - before) / tokens
    print("server: %d tokens, CPU %.1f us for each beside the engine: %.1f %% of a core at %d tokens a second" % (tokens, each / 1000, each * RATE / 1e7, RATE))


globals()[sys.argv[1]](*sys.argv[2:])
