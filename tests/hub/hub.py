#!/usr/bin/env python3
"""A model hub for tests, in two hosts: one lists and answers "resolve" with a signed address, the other serves the bytes.

    hub.py serve ROOT READY     serves ROOT/ORG/NAME/FILES; writes its port to READY when it listens, and the second host's to READY.elsewhere; ends with its stdin
    hub.py set PORT JSON        sets what goes wrong from now on ({}: nothing); see FAULTS
    hub.py get PORT KEY         prints one of the counts, or all
Standard library only.  Python's huggingface_hub downloads from it (tests/hub/client.sh), which shows that it is a hub.

FAULTS: an object whose keys are those below; "every": N strikes each Nth request, "times": N at most N times.
    page        {"size": N}                 entries a page of the listing (default 5)
    ttl         {"s": X}                    seconds that a signature is good for (default 60)
    token       {"is": TEXT}                401 without it
    limit       {"every": N, "s": X, "how": "Retry-After"|"RateLimit"}      429, and 429 for all until then
    status      {"where": "list"|"resolve"|"bytes", "code": N, "every", "times"}
    stall       {"after": BYTES, "every", "times"}      the body stops there, the connection stays
    truncate    {"after": BYTES, "every", "times"}      the connection ends there
    corrupt     {"path": TEXT, "every", "times"}        one byte is another one
    ignore      {"every", "times"}          the whole file for a range
    shift       {"every", "times"}          a Content-Range one byte further on
    extra       {"every", "times"}          more bytes than the range has
    commit      {"every", "times"}          X-Repo-Commit of another commit
    etag        {"every", "times"}          X-Linked-ETag of another file
    loop        {"every", "times"}          resolve redirects to itself
    unsigned    {"every", "times"}          the address is signed for another range
    sneak       {"path": TEXT}              an entry of the listing with that path
    elsewhere   {"at": ADDRESS}             where the second host is, when something stands in front of it
    pace        {"bytes_s": N}              each connection at that rate
    link        {"bytes_s": N, "rtt_s": X, "loss": P}   one link for all; each connection behaves like TCP: a window of segments a round
                                            trip, one more each time, halved by a lost segment
"""
import email.utils
import hashlib
import hmac
import http.server
import json
import os
import random
import socketserver
import sys
import threading
import time
import urllib.parse
import urllib.request

SECRET = os.urandom(16)
SMALL = 10_000          # bytes; larger files and weights are "LFS", with a SHA-256 and on the other host


class State:
    def __init__(self, root):
        self.root, self.lock = root, threading.Lock()
        self.faults, self.struck, self.seen = {}, {}, {}
        self.counts = {k: 0 for k in ("list", "resolve", "bytes", "body_bytes", "tokens_at_hub", "tokens_elsewhere", "limited")}
        self.limited_until, self.link_free, self.hashes = 0.0, 0.0, {}

    def count(self, key, n=1):
        with self.lock:
            self.counts[key] = self.counts.get(key, 0) + n

    def strikes(self, name, **only):
        """Whether this fault hits the request that asks."""
        with self.lock:
            f = self.faults.get(name)
            if f is None or any(f.get(k, v) != v for k, v in only.items()):
                return None
            self.seen[name] = self.seen.get(name, 0) + 1
            if self.seen[name] % f.get("every", 1) or self.struck.get(name, 0) >= f.get("times", 1 << 60):
                return None
            self.struck[name] = self.struck.get(name, 0) + 1
            return {"struck": True, **f}

    def value(self, name, key, otherwise):
        return self.faults.get(name, {}).get(key, otherwise)

    def digest(self, path):
        """(lfs, hash, bytes) of a file, computed once."""
        st = os.stat(path)
        key = (path, st.st_size, st.st_mtime_ns)
        with self.lock:
            if key in self.hashes:
                return self.hashes[key]
        lfs = st.st_size > SMALL or path.endswith(".safetensors")
        h = hashlib.sha256() if lfs else hashlib.sha1(b"blob %d\0" % st.st_size)
        with open(path, "rb") as f:
            while piece := f.read(1 << 20):
                h.update(piece)
        with self.lock:
            self.hashes[key] = (lfs, h.hexdigest(), st.st_size)
            return self.hashes[key]

    def files(self, repo):
        top, found = os.path.join(self.root, repo), []
        for here, dirs, names in os.walk(top):
            dirs.sort()
            found += [os.path.relpath(os.path.join(here, n), top) for n in names]
        return sorted(found)

    def commit(self, repo):
        return hashlib.sha1("\n".join([repo] + [f + self.digest(os.path.join(self.root, repo, f))[1] for f in self.files(repo)]).encode()).hexdigest()


def sign(path, span, until):
    return hmac.new(SECRET, f"{path} {span} {until}".encode(), "sha256").hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        if not any(k.lower() == "content-length" for k, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, why):
        self.answer(status, [("X-Error-Message", why)], json.dumps({"error": why}).encode())

    def span(self, size):
        """(first, end) that the request wants, or None when it asks for all."""
        text = self.headers.get("Range")
        if not text or not text.startswith("bytes="):
            return None
        first, last = text[6:].split("-")
        return int(first), min(int(last) + 1 if last else size, size)

    # --- the body, and what goes wrong with it ---

    def send_file(self, path, name, headers):
        state, (lfs, _, size) = self.server.state, self.server.state.digest(path)
        span = self.span(size)
        if span and (span[0] >= size or span[0] >= span[1]):
            return self.answer(416, [("Content-Range", f"bytes */{size}")])
        first, end = span or (0, size)
        if state.strikes("ignore"):
            first, end, span = 0, size, None
        n = end - first
        extra = 1000 if span and state.strikes("extra") else 0
        self.send_response(206 if span else 200)
        for k, v in headers:
            self.send_header(k, v)
        if span:
            off = 1 if state.strikes("shift") else 0
            self.send_header("Content-Range", f"bytes {first + off}-{end - 1 + off}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(n + extra))
        self.end_headers()
        if self.command == "HEAD":
            return
        stall, cut = state.strikes("stall"), state.strikes("truncate")
        rot = state.strikes("corrupt") if state.value("corrupt", "path", name) == name else None
        stop = min([f.get("after", 0) for f in (stall, cut) if f] + [n])
        with open(path, "rb") as f:
            self.send_bytes(f, first, stop, n // 2 if rot else None)
        if extra:
            self.wfile.write(b"x" * extra)
        if stall and stop < n:
            self.wfile.flush()
            end_s = time.time() + 60
            while time.time() < end_s and not self.server.closing:
                time.sleep(0.05)
        if stop < n:
            self.close_connection = True

    def send_bytes(self, f, first, n, rotten):
        state, sent = self.server.state, 0
        pace, link = state.value("pace", "bytes_s", 0), state.faults.get("link")
        if rotten is None and not pace and not link:
            self.wfile.flush()
            while sent < n:
                k = os.sendfile(self.connection.fileno(), f.fileno(), first + sent, n - sent)
                if not k:
                    break
                sent += k
            state.count("body_bytes", sent)
            return
        f.seek(first)
        if link and not hasattr(self, "window"):
            self.window, self.slow_start = 10.0, True
        while sent < n:
            size = 1448 * int(self.window) if link else 16384
            piece = bytearray(f.read(min(size, n - sent)))
            if rotten is not None and sent <= rotten < sent + len(piece):
                piece[rotten - sent] ^= 1
            self.wfile.write(piece)
            sent += len(piece)
            state.count("body_bytes", len(piece))
            pace = state.value("pace", "bytes_s", 0)            # it may have changed
            if pace:
                time.sleep(len(piece) / pace)
            if link:
                self.round_trip(link, len(piece))

    def round_trip(self, link, n):
        """Waits as long as a window takes, and makes the next one."""
        state, segments = self.server.state, max(1, n // 1448)
        with state.lock:
            now = time.time()
            state.link_free = max(state.link_free, now) + n / link["bytes_s"]
            wait = max(link["rtt_s"], state.link_free - now)
        time.sleep(wait)
        if random.random() < 1 - (1 - link["loss"]) ** segments:
            self.window, self.slow_start = max(2.0, self.window / 2), False
        else:
            self.window = min(self.window * 2 if self.slow_start else self.window + 1, 1000)


class Bytes(Handler):
    """The second host: takes only addresses that the hub has signed, each for one range and for a while."""

    def do_GET(self):
        state = self.server.state
        state.count("bytes")
        if self.headers.get("Authorization"):
            state.count("tokens_elsewhere")
        url = urllib.parse.urlparse(self.path)
        q, path = dict(urllib.parse.parse_qsl(url.query)), urllib.parse.unquote(url.path).lstrip("/")
        if f := state.strikes("status", where="bytes"):
            return self.refuse(f["code"], "it is said to be so")
        if not hmac.compare_digest(sign(path, q.get("span", ""), q.get("until", "")), q.get("sig", "")) or float(q["until"]) < time.time():
            return self.refuse(403, "the signature is wrong or has expired")
        if q["span"] != (self.headers.get("Range") or "all"):
            return self.refuse(403, "the signature is for another range")
        full = os.path.join(state.root, path)
        self.send_file(full, path.split("/", 2)[-1], [("ETag", f'"{state.digest(full)[1]}"')])


class Hub(Handler):
    def do_POST(self):
        state = self.server.state
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/control":
            with state.lock:
                state.faults, state.struck, state.seen, state.limited_until = json.loads(sent), {}, {}, 0.0
                state.counts = {k: 0 for k in state.counts}
        self.answer(200, [], b"{}")

    def do_GET(self):
        state = self.server.state
        url = urllib.parse.urlparse(self.path)
        parts, q = [urllib.parse.unquote(p) for p in url.path.strip("/").split("/")], dict(urllib.parse.parse_qsl(url.query))
        if url.path == "/control":
            return self.answer(200, [], json.dumps(state.counts).encode())
        if self.headers.get("Authorization"):
            state.count("tokens_at_hub")
        token = state.value("token", "is", None)
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            return self.refuse(401, "access to this model is restricted")
        api = parts[:2] == ["api", "models"]
        repo = "/".join(parts[2:4] if api else parts[:2])
        kind = "list" if api else "resolve"
        state.count(kind)
        if f := state.strikes("status", where=kind):
            return self.refuse(f["code"], "it is said to be so")
        if not os.path.isdir(os.path.join(state.root, repo)):
            return self.refuse(404, "repository not found")
        if api:
            return self.list(repo, parts[4:], q)
        if len(parts) < 5 or parts[2] != "resolve":
            return self.refuse(404, "no such page")
        self.resolve(repo, parts[3], "/".join(parts[4:]))

    def limited(self):
        state, f = self.server.state, self.server.state.strikes("limit")
        with state.lock:
            if f:
                state.limited_until = time.time() + f["s"]
            left = state.limited_until - time.time()
        if left <= 0:
            return False
        state.count("limited")
        wait = str(int(left) + 1)
        how = state.value("limit", "how", "Retry-After")
        self.answer(429, [("Retry-After", wait) if how == "Retry-After" else ("RateLimit", f'"resolvers";r=0;t={wait}')])
        return True

    def known(self, repo, revision):
        return revision in ("main", self.server.state.commit(repo))

    def list(self, repo, rest, q):
        state = self.server.state
        commit = state.commit(repo)
        revision = rest[1] if len(rest) > 1 else "main"
        if not self.known(repo, revision):
            return self.refuse(404, "revision not found")
        if not rest or rest[0] == "revision":
            names = [{"rfilename": f} for f in state.files(repo)]
            return self.answer(200, [("Content-Type", "application/json")], json.dumps(
                {"_id": "0" * 24, "id": repo, "modelId": repo, "sha": commit, "private": False, "gated": False, "disabled": False,
                 "tags": [], "downloads": 0, "likes": 0, "siblings": names}).encode())
        entries, folders = [], set()
        for name in state.files(repo):
            for d in range(1, name.count("/") + 1):
                folders.add("/".join(name.split("/")[:d]))
            lfs, oid, size = state.digest(os.path.join(state.root, repo, name))
            e = {"type": "file", "oid": hashlib.sha1(oid.encode()).hexdigest() if lfs else oid, "size": size, "path": name}
            if lfs:
                e["lfs"] = {"oid": oid, "size": size, "pointerSize": 134}
            entries.append(e)
        entries += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": d} for d in sorted(folders)]
        if "sneak" in state.faults:
            entries.append({"type": "file", "oid": "0" * 40, "size": 1, "path": state.faults["sneak"]["path"]})
        size, at = state.value("page", "size", 5), int(q.get("cursor", 0))
        headers = [("Content-Type", "application/json")]
        if at + size < len(entries):
            headers.append(("Link", f'<{self.headers.get("X-Forwarded-Proto", "http")}://{self.headers["Host"]}/api/models/{repo}/tree/{revision}?recursive=true&cursor={at + size}>; rel="next"'))
        self.answer(200, headers, json.dumps(entries[at:at + size]).encode())

    def resolve(self, repo, revision, name):
        state = self.server.state
        path = os.path.join(state.root, repo, name)
        if self.limited():
            return
        if not self.known(repo, revision):
            return self.refuse(404, "revision not found")
        if name not in state.files(repo):
            return self.refuse(404, "entry not found")
        if link := state.faults.get("link"):
            time.sleep(link["rtt_s"])
        lfs, oid, size = state.digest(path)
        headers = [("X-Repo-Commit", "f" * 40 if state.strikes("commit") else state.commit(repo)), ("X-Linked-Size", str(size)),
                   ("Date", email.utils.formatdate(usegmt=True))]
        tag = "e" * 64 if state.strikes("etag") else oid
        if not lfs:
            return self.send_file(path, name, headers + [("ETag", f'"{tag}"')])
        if state.strikes("loop"):
            return self.answer(302, headers + [("Location", self.path)])
        span, until = self.headers.get("Range") or "all", str(time.time() + state.value("ttl", "s", 60))
        if state.strikes("unsigned"):
            span = "bytes=0-0"
        to = f"{repo}/{name}"
        q = urllib.parse.urlencode({"span": span, "until": until, "sig": sign(to, span, until)})
        at = state.value("elsewhere", "at", f"http://127.0.0.2:{self.server.other}")
        self.answer(302, headers + [("X-Linked-ETag", f'"{tag}"'), ("ETag", f'"{tag}"'), ("Location", f"{at}/{urllib.parse.quote(to)}?{q}")])


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size, closing = True, 128, False

    def handle_error(self, request, client_address):
        pass                            # a client that went away

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]


def serve(root, ready):
    state = State(root)
    elsewhere, hub = Server(("127.0.0.2", 0), Bytes), Server(("127.0.0.1", 0), Hub)
    for s in (elsewhere, hub):
        s.state, s.other = state, elsewhere.server_port
        threading.Thread(target=s.serve_forever, daemon=True).start()
    with open(ready + ".elsewhere", "w") as f:
        f.write(f"{elsewhere.server_port}\n")
    with open(ready + ".new", "w") as f:
        f.write(f"{hub.server_port}\n")
    os.rename(ready + ".new", ready)
    sys.stdin.read()
    elsewhere.closing = True


def main():
    what, *args = sys.argv[1:]
    if what == "serve":
        return serve(*args)
    url = f"http://127.0.0.1:{args[0]}/control"
    if what == "set":
        urllib.request.urlopen(urllib.request.Request(url, json.loads(args[1]) is not None and args[1].encode(), method="POST")).read()
        return
    counts = json.load(urllib.request.urlopen(url))
    print(counts[args[1]] if len(args) > 1 else json.dumps(counts))


main()
