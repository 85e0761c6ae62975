"""One server under attack, and a polite client that must not notice."""

import http.client
import os
import pathlib
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from ports import free_port  # noqa: E402


class Server:
    """Starts a server with few descriptors and tells how it is. With https, it makes its own certificate."""

    def __init__(self, binary, flags=(), descriptors=1024, scheme="http"):
        flags = [*flags, *(["--auto-tls"] if scheme == "https" else [])]
        self.dir = tempfile.mkdtemp(prefix="vetch-hostile-")
        self.port, peer = free_port(), free_port()
        client_url, peer_url = f"{scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        self.log = open(os.path.join(self.dir, "log"), "w+")
        command = [
            binary, "--name=default", f"--data-dir={self.dir}/data",
            f"--listen-client-urls={client_url}", f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}", *flags,
        ]
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, preexec_fn=limit)
        self._wait_until_ready()
        self.trust = None
        if scheme == "https":
            self.trust = ssl.create_default_context(cafile=f"{self.dir}/data/fixtures/client/cert.pem")

    def _wait_until_ready(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError("the server ended at once:\n" + self.text())
            if "ready to serve client requests" in self.text():
                return
            time.sleep(0.05)
        raise AssertionError("the server is not ready")

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def resident(self):
        """Resident memory in MiB."""
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, room=None):
        """A socket, for which the kernel keeps at most `room` bytes that are not read."""
        connection = socket.socket()
        if room is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", self.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def polite(self, limit=3.0):
        """A client that wants one page. Gives the seconds it took; fails if it does not get it in time."""
        assert self.process.poll() is None, "the server is gone:\n" + self.text()[-2000:]
        begun = time.monotonic()
        if self.trust is None:
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit)
        else:
            client = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=limit, context=self.trust)
        client.request("GET", "/health")
        answer = client.getresponse()
        body = answer.read()
        client.close()
        assert (answer.status, body) == (200, b'{"health":"true","reason":""}'), (answer.status, body)
        return time.monotonic() - begun

    def persistent(self, limit=10.0):
        """A client that comes again when it is sent away. Gives the seconds until it had its page."""
        begun = time.monotonic()
        while True:
            try:
                self.polite(limit)
                return time.monotonic() - begun
            except OSError:
                if time.monotonic() - begun > limit:
                    raise
                time.sleep(0.05)

    def stop(self):
        """Asks it to end, which it must do by itself. True: it did."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir)
        return self.process.returncode in (0, -signal.SIGTERM)
