#!/usr/bin/env python3
"""Records the real program with the demo model: cast.py PROGRAM FILE.  Types like a person, writes an asciinema recording, version 2.

The program is silent when it waits, and only then; so a step is typed after a time of silence."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time

COLUMNS, ROWS = 90, 26
STEPS = [                                            # seconds of silence, then what is typed
    (1.5, "Tell me a story.\r"),
    (1.5, "Write hello world in C\r"),
    (1.5, "What time is it in Tokyo?\r"),
    (2.0, "\x0f"), (2.5, "\x0f"),                    # Ctrl-O: what was folded, and folded again
    (1.5, "\x1bh"), (2.5, "\x1bh"), (2.5, "\x1bh"),   # Alt-H: how tokens were made, how likely, none
    (1.5, "\x1bi"), (1.5, "\x1b[C"), (0.4, "\x1b[C"), (0.4, "\x1b[C"), (0.4, "\x1b[B"), (1.5, "q"),
    (1.0, "\x1bv"), (1.0, "?hello\r"), (1.5, "n"), (1.5, "q"),
    (1.5, "\x04"),
]


def record(program, path):
    pid, master = pty.fork()
    if not pid:
        home = tempfile.mkdtemp()
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8", TZ="UTC", XDG_STATE_HOME=home, XDG_CONFIG_HOME=home)
        for name in ("NO_COLOR", "TMUX", "SSH_CONNECTION", "DISPLAY", "Q35CHAT_MODEL"):
            os.environ.pop(name, None)
        time.sleep(0.2)                              # until the terminal has its size
        os.execv(program, [program, "--temperature", "0", "--seed", "1"])
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    events, start, steps = [], time.monotonic(), list(STEPS)
    keys, due, last = "", 0.0, start

    def take(wait):
        nonlocal last
        if not select.select([master], [], [], wait)[0]:
            return True
        try:
            data = os.read(master, 65536)
        except OSError:
            return False
        if b"\x1b[c" in data or b"\x1b[0c" in data:
            os.write(master, b"\x1b[?62;22c")        # what a terminal answers when asked what it is
        text = data.decode("utf-8", "replace")
        last = time.monotonic()
        events.append([round(time.monotonic() - start, 3), "o", text])
        return True

    while take(0.02) and time.monotonic() - start < 90:
        now = time.monotonic()
        if keys and now >= due:
            n = len(keys) if keys[0] == "\x1b" else 1
            os.write(master, keys[:n].encode())
            keys, due = keys[n:], now + 0.055
        elif not keys and steps and now - last >= steps[0][0]:
            keys = steps.pop(0)[1]
    if steps:
        os.kill(pid, signal.SIGHUP)
    os.waitpid(pid, 0)
    if steps:
        sys.exit(f"cast.py: no silence for {steps}")
    with open(path, "w") as f:
        head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "q35chat with its demo model", "env": {"TERM": "xterm-256color"}}
        f.write(json.dumps(head) + "\n")
        for event in events:
            f.write(json.dumps(event, ensure_ascii=False) + "\n")


record(*sys.argv[1:])
