"""A server for tests that speaks like other people's: replays tests/data/streams and misbehaves when told.

    python3 tests/remote/server.py DIR      writes its port to DIR/port and each request it gets to DIR/requests (a JSON line each); where DIR/tls.pem and
                                            DIR/tls.key are a certificate and its key, another port for TLS to DIR/port.tls

The first part of the path says how: /vllm/v1/..., /sglang/, /llamacpp/, /llamacpp-python/, /ollama/, /odd/ replay that stream; /error/, /interrupted/, /broken/ too, with their ends.
More ways, as a second part: slow (a byte at a time), stall (the stream stops in the middle), picky (refuses min_p), once (the first connection breaks),
key (wants the key "secret"), full (context exceeded), busy (429), html (502 with a page), two (two models), late (likewise, as soon as there is a file DIR/go),
listed (those whose names are the lines of DIR/list), embed (one, and one for embeddings), empty (a list of models that is empty), unlisted (no list of models), plain (a short answer that is complete), big (a huge event), flood (an answer without an end).
"""
import http.server
import json
import os
import ssl
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STREAMS = os.path.join(HERE, "..", "data", "streams")
OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "llamacpp-python": "me", "interrupted": "me", "ollama": "library"}
WAYS = {"slow", "stall", "picky", "once", "key", "full", "busy", "html", "two", "late", "listed", "embed", "empty", "unlisted", "plain", "big", "flood"}
folder = sys.argv[1]
lock = threading.Lock()
broken_once = set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def parts(self):
        parts = self.path.strip("/").split("/")
        way = parts[1] if len(parts) > 1 and parts[1] in WAYS else ""
        return parts[0], way, "/".join(parts[2 if way else 1:])

    def note(self, body):
        with lock, open(os.path.join(folder, "requests"), "a") as f:
            f.write(json.dumps({"path": self.path, "key": self.headers.get("Authorization"), "body": body}) + "\n")

    def answer(self, status, text, kind="application/json"):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message):
        self.answer(status, json.dumps({"error": {"message": message, "code": status}}))

    def allowed(self, way):
        if way == "key" and self.headers.get("Authorization") != "Bearer secret":
            self.refuse(401, "Invalid API key")
            return False
        return True

    def do_GET(self):
        dialect, way, rest = self.parts()
        self.note(None)
        if not self.allowed(way):
            return
        if rest == "v1/models" and way != "unlisted":
            model = {"id": "tiny", "object": "model", "owned_by": OWNERS.get(dialect, "somebody")}
            if dialect in ("vllm", "sglang"):
                model["max_model_len"] = 4096
            while way == "late" and not os.path.exists(os.path.join(folder, "go")):
                time.sleep(0.05)
            two = [model, dict(model, id="other")]
            models = {"two": two, "late": two, "empty": [], "embed": [dict(model, id="vectors", capabilities=["embedding"]), model]}.get(way, [model])
            if way == "listed":
                with open(os.path.join(folder, "list")) as f:
                    models = [dict(model, id=name) for name in f.read().split()]
            self.answer(200, json.dumps({"object": "list", "data": models}))
        elif rest == "props" and dialect == "llamacpp":
            self.answer(200, json.dumps({"default_generation_settings": {"n_ctx": 8192}}))
        else:
            self.answer(404, json.dumps({"detail": "Not Found"}))

    def stream(self, data, way):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        step = 1 if way == "slow" else 7
        for at in range(0, len(data), step):
            if way == "stall" and at > len(data) // 2:
                time.sleep(600)
            self.wfile.write(data[at:at + step])
            self.wfile.flush()

    def do_POST(self):
        dialect, way, rest = self.parts()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.note(body)
        if not self.allowed(way):
            return
        if rest != "v1/chat/completions":
            self.answer(404, json.dumps({"detail": "Not Found"}))
        elif way == "picky" and "min_p" in body:
            self.refuse(400, "Unsupported parameter: 'min_p'")
        elif way == "full":
            self.refuse(400, "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.")
        elif way == "busy":
            self.refuse(429, "too many requests")
        elif way == "html":
            self.answer(502, "<html>bad gateway</html>", "text/html")
        elif way == "once" and dialect not in broken_once:
            broken_once.add(dialect)
            self.close_connection = True
        elif way == "big":
            self.stream(b'data: {"choices": [{"delta": {"content": "' + b"x" * (17 << 20), "")
        elif way == "plain":
            self.stream(b'data: {"choices": [{"delta": {"content": "42 is it."}}]}\n\n'
                        b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n', way)
        elif way == "flood":
            self.stream(b"", way)
            while True:
                self.wfile.write(b'data: {"choices": [{"delta": {"content": "' + b"x" * 1000 + b'"}}]}\n\n')
        else:
            answered = any(m["role"] == "tool" for m in body["messages"])       # results of its calls: then plain words
            with open(os.path.join(STREAMS, ("sglang" if answered else dialect) + ".sse"), "rb") as f:
                self.stream(f.read(), way)

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass


def listen(name, tls=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    with open(os.path.join(folder, name + ".new"), "w") as f:
        f.write(str(server.server_address[1]))
    os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))
    return server


if os.path.exists(os.path.join(folder, "tls.pem")):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(os.path.join(folder, "tls.pem"), os.path.join(folder, "tls.key"))
    threading.Thread(target=listen("port.tls", tls).serve_forever, daemon=True).start()
listen("port").serve_forever()
