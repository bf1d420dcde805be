#!/usr/bin/env python3
"""python3 tests/bench/keys.py build/q35chat assets/demo     The longest time from a key to the screen of a chat that shares its model: alone, and
while six requests that no context can hold, or that nearly fill it, arrive one after the other at its socket.  Goal: 100 ms, on a machine with nothing else
to do."""
import fcntl, os, pty, select, socket, struct, sys, tempfile, termios, threading, time
home = tempfile.mkdtemp()
env = dict(os.environ, HOME=home, XDG_RUNTIME_DIR=home, TERM="xterm-256color")
pid, tty = pty.fork()
if pid == 0:
    os.execve(sys.argv[1], [sys.argv[1], "--model", sys.argv[2], "--tui", "--ctx", "32768"], env)
fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
path = home + "/q35chat/serve.sock"

def drain(seconds):
    end = time.time() + seconds
    while select.select([tty], [], [], max(0, end - time.time()))[0]:
        os.read(tty, 65536)

def key(c):
    drain(0)
    at = time.time()
    os.write(tty, c)
    if not select.select([tty], [], [], 20)[0]:
        return 20
    took = time.time() - at
    drain(.02)
    return took

def post(where, body):
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    try:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: l\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (where, len(body)) + body)
    except OSError:
        pass                            # refused at the head
    while s.recv(65536):
        pass

def hostile():
    post(b"/v1/completions", b'{"prompt":[' + b"0," * (31 << 20) + b"0]}")
    post(b"/tokenize", b'{"prompt":"' + b"a" * (60 << 20) + b'"}')
    post(b"/tokenize", b'{"prompt":"' + b"a " * (30 << 20) + b'"}')
    post(b"/detokenize", b'{"tokens":[' + b"0," * (8 << 20) + b"0]}")
    post(b"/v1/chat/completions", b'{"messages":[' + b"[]," * (20 << 20) + b"[]]}")
    post(b"/tokenize", b'{"prompt":"' + b"a" * 600000 + b'"}')

try:
    for _ in range(600):
        drain(.1)
        if os.path.exists(path):
            break
    drain(2)
    keys = [b"a", b"\x7f"]
    print("alone: %.0f ms" % (1e3 * max(key(keys[i % 2]) for i in range(60))))
    beside = threading.Thread(target=hostile)
    beside.start()
    worst, n = 0, 0
    while beside.is_alive():
        worst, n = max(worst, key(keys[n % 2])), n + 1
    print("beside six requests: %.0f ms, %d keys" % (1e3 * worst, n))
finally:
    os.kill(pid, 9)
