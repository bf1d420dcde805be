"""Answers the question whether a model is loaded a second time.

    python3 tests/remote/second.py ANSWER PROGRAM [ARGUMENT...]     prints the program's status, and its output behind the question
"""
import os
import pty
import sys

pid, fd = pty.fork()
if not pid:
    os.execv(sys.argv[2], sys.argv[2:])
said, answered = b"", False
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break                           # the program has ended
    if not piece:
        break
    said += piece
    if not answered and b"[y/N] " in said:
        os.write(fd, sys.argv[1].encode() + b"\n")
        answered = True
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode().partition("[y/N] ")[2].replace("\r\n", " "))
