"""A q35chat of another version, as far as a program sees it that might attach.

    python3 tests/remote/other.py SOCKET DIRECTORY NUMBER ATTACH
    NUMBER is the protocol in its list of models (-: none is there), ATTACH that in the first line for who attaches (-: it refuses).
Prints the paths that are posted to.
"""
import http.server
import json
import os
import socketserver
import sys

path, directory, number, attach = sys.argv[1:]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        model = {"id": "other", "root": directory, "options": "", "max_model_len": 1000}
        if number != "-":
            model["protocol"] = int(number)
        self.reply(200, {"data": [model]} if self.path == "/v1/models" else {})

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        print(self.path, flush=True)
        if self.path != "/q35chat/attach" or attach == "-":
            self.reply(400, {"error": {"message": "the q35chat that asks is of another version"}})
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b'{"protocol": %d}\n{"loading": [1,2]}\n' % int(attach))
        self.rfile.read()               # until the program goes

    def address_string(self):
        return "socket"

    def log_message(self, *what):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
if os.path.exists(path):
    os.unlink(path)
Server(path, Handler).serve_forever()
