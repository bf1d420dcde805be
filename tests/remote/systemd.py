"""Starts a server as systemd does: opens its sockets, hands them over from descriptor 3 on, and listens to what it tells of itself.

    python3 tests/remote/systemd.py DIR PROGRAM [ARGUMENT...]      sockets: DIR/given.sock, and with PORT in the environment 127.0.0.1:PORT

A client is there before the program runs, as the one for which systemd starts it.  When the program is ready it is told to end.  Prints, one a
line: the client's status, what the program told, its exit status, what is left of the socket.
"""
import os
import signal
import socket
import sys

folder, program = sys.argv[1], sys.argv[2:]
given = socket.socket(socket.AF_UNIX)
given.bind(folder + "/given.sock")
given.listen(8)
sockets = [given]
if os.environ.get("PORT"):
    tcp = socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    tcp.bind(("127.0.0.1", int(os.environ["PORT"])))
    tcp.listen(8)
    sockets.append(tcp)
news = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
news.bind(folder + "/notify.sock")
news.settimeout(300)


def asks(s):
    s.settimeout(300)
    s.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")


def status(s):
    return s.makefile().readline().split()[1]


client = socket.socket(socket.AF_UNIX)
client.connect(folder + "/given.sock")
asks(client)
pid = os.fork()
if not pid:
    kept = [os.dup(s.fileno()) for s in sockets]
    for i, fd in enumerate(kept):
        os.dup2(fd, 100 + i)
    for i in range(len(kept)):
        os.dup2(100 + i, 3 + i)
    os.environ.update(LISTEN_PID=os.environ.get("OTHER_PID", str(os.getpid())), LISTEN_FDS=str(len(kept)), NOTIFY_SOCKET=folder + "/notify.sock")
    os.execv(program[0], program)
told = []
print("client", status(client))
while "READY=1" not in told:
    told += news.recv(4096).decode().split("\n")
if len(sockets) > 1:
    s = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])))
    asks(s)
    print("without a key", status(s))
os.kill(pid, signal.SIGTERM)
while "STOPPING=1" not in told:
    told += news.recv(4096).decode().split("\n")
print("told", ", ".join(t for t in told if "STATUS" not in t))
print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print("socket", "there" if os.path.exists(folder + "/given.sock") else "gone")
