"""How long clients of `q35chat serve` wait for a byte while others' long prompts are read: behind two prompts of TOKENS tokens, streams in all dialects.
Prints for each the time to the status line and headers, to the first byte of the body, the longest time without a byte, and whether it came to its end.
Fails if headers took more than 100 ms, a stream was silent for more than 6 s, or one broke off.

usage: silence.py URL KEY [TOKENS]           URL: of the server, or of a proxy in front of it; TOKENS: 15000 if not given
"""
import http.client
import json
import sys
import threading
import time
import urllib.parse

url, key = urllib.parse.urlparse(sys.argv[1]), sys.argv[2]
tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 15000
ASKED = [{"role": "user", "content": "What is 6*7?"}]
requests = [
    ("chat", "/v1/chat/completions", {"messages": ASKED, "max_tokens": 40}, "[DONE]"),
    ("messages", "/v1/messages", {"model": "demo", "messages": ASKED, "max_tokens": 40}, "message_stop"),
    ("responses", "/v1/responses", {"input": "What is 6*7?", "max_output_tokens": 40}, "response."),
    ("ollama", "/api/chat", {"model": "demo", "messages": ASKED, "options": {"num_predict": 40}}, '"done": true'),
]


def stream(name, path, body, last, out):
    c = http.client.HTTPConnection(url.hostname, url.port, timeout=600)
    begun = time.monotonic()
    c.request("POST", path, json.dumps({**body, "stream": True}), {"Authorization": "Bearer " + key, "Content-Type": "application/json"})
    r = c.getresponse()
    head, first, gap, data, at = time.monotonic() - begun, None, 0, b"", time.monotonic()
    while piece := r.read1(65536):
        now = time.monotonic()
        first, gap, at, data = first or now - begun, max(gap, now - at), now, data + piece
    out.append((name, r.status, head, first or 0, gap, last in data.decode(), time.monotonic() - begun))


def together(list_of):
    out, threads = [], []
    for r in list_of:
        threads.append(threading.Thread(target=stream, args=(*r, out)))
        threads[-1].start()
        time.sleep(0.3)
    for t in threads:
        t.join()
    return out


long = [("long %d" % i, "/v1/chat/completions", {"messages": [{"role": "user", "content": "%d: " % i + "one two three four " * (tokens // 4)}],
                                                 "max_tokens": 8}, "[DONE]") for i in range(2)]
print("behind two prompts of about %d tokens" % tokens)
print("%-10s %6s %10s %10s %10s %6s %8s" % ("request", "status", "headers ms", "first ms", "silent s", "whole", "all s"))
rows = sorted(together(long + requests))
for name, status, head, first, gap, whole, took in rows:
    print("%-10s %6d %10.1f %10.1f %10.2f %6s %8.1f" % (name, status, head * 1e3, first * 1e3, gap, whole, took))
head, gap, whole = max(r[2] for r in rows), max(r[4] for r in rows), all(r[5] for r in rows) and len(rows) == len(long + requests)
ok = head <= 0.1 and gap <= 6 and whole
print("%s headers within %.1f ms, never silent for more than %.2f s, %s" % (
    "ok" if ok else "not ok", head * 1e3, gap, "all whole" if whole else "not all whole"))
sys.exit(not ok)
