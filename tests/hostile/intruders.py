"""Whoever is nobody: every way in that a stranger could try while users are asked who they are."""

import base64
import json

SECRET = base64.b64encode(b"what strangers must not see").decode()
KEY = base64.b64encode(b"key").decode()
ZERO = base64.b64encode(b"\0").decode()

# What needs a user, with a body that would do something.
GUARDED = {
    "kv/range": {"key": ZERO, "range_end": ZERO},
    "kv/put": {"key": KEY, "value": KEY},
    "kv/deleterange": {"key": ZERO, "range_end": ZERO},
    "kv/txn": {"success": [{"requestRange": {"key": KEY}}, {"requestPut": {"key": KEY, "value": KEY}}]},
    "kv/compaction": {"revision": "2"},
    "lease/grant": {"TTL": "100", "ID": "77"},
    "lease/revoke": {"ID": "1"},
    "lease/timetolive": {"ID": "1", "keys": True},
    "lease/leases": {},
    "lease/keepalive": {"ID": "1"},
    "watch": {"create_request": {"key": ZERO, "range_end": ZERO, "start_revision": "1"}},
    "auth/enable": {},
    "auth/disable": {},
    "auth/user/add": {"name": "intruder", "password": "x"},
    "auth/user/get": {"name": "root"},
    "auth/user/list": {},
    "auth/user/delete": {"name": "alice"},
    "auth/user/changepw": {"name": "root", "password": "x"},
    "auth/user/grant": {"user": "alice", "role": "root"},
    "auth/user/revoke": {"name": "root", "role": "root"},
    "auth/role/add": {"name": "intruder"},
    "auth/role/get": {"role": "root"},
    "auth/role/list": {},
    "auth/role/delete": {"role": "root"},
    "auth/role/grant": {"name": "root", "perm": {"key": KEY}},
    "auth/role/revoke": {"role": "root", "key": KEY},
    "maintenance/alarm": {"action": "ACTIVATE", "alarm": "CORRUPT", "memberID": "1"},
    "maintenance/hash": {},
    "maintenance/hashkv": {},
    "maintenance/snapshot": {},
    "maintenance/defragment": {},
    "maintenance/transfer-leadership": {"targetID": "1"},
    "maintenance/downgrade": {"action": "VALIDATE", "version": "3.6.0"},
    "cluster/member/add": {"peerURLs": ["http://127.0.0.1:1"]},
    "cluster/member/remove": {"ID": "1"},
    "lock/lock": {"name": KEY},
    "election/campaign": {"name": KEY, "value": KEY},
    "election/leader": {"name": KEY},
}

# Other spellings of a path that is guarded.
SPELLINGS = ["/v3beta/kv/range", "/v3/kv//range", "/v3/kv/./range", "/v3/x/../kv/range", "/v3/kv/%72ange", "/V3/kv/range", "/v3/KV/range",
             "/v3/kv/range/", "/v3/kv/range?token=root", "//v3/kv/range", "/v3alpha/kv/range", "/v3/kv/range;x=1"]


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def credentials(stale):
    """Headers of somebody who has no right to be let in."""
    unsigned = part({"alg": "none", "typ": "JWT"}) + "." + part({"username": "root", "revision": 99}) + "."
    return {
        "none": b"",
        "an empty token": b"Authorization: \r\n",
        "any text": b"Authorization: root\r\n",
        "the form of a token": b"Authorization: abcdefghijklmnop.1\r\n",
        "an unsigned JSON web token": f"Authorization: {unsigned}\r\n".encode(),
        "basic": b"Authorization: Basic " + base64.b64encode(b"root:wrong") + b"\r\n",
        "bearer": b"Authorization: Bearer root\r\n",
        "60 kilobytes": b"Authorization: " + b"A" * 60_000 + b"\r\n",
        "no text": b"Authorization: \xff\xfe\x80\r\n",
        "two": b"Authorization: x\r\nAuthorization: root\r\n",
        "as metadata": b"Grpc-Metadata-Token: root\r\nGrpc-Metadata-Authorization: root\r\ntoken: root\r\n",
        "a forwarded name": b"X-Remote-User: root\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Client-Cert: Subject=\"CN=root\"\r\n",
        "of a user who was deleted": f"Authorization: {stale}\r\n".encode(),
    }


def ask(server, path, body, headers=b""):
    """The whole answer, as far as it comes within a moment: some of what is asked for would never end."""
    data = json.dumps(body).encode()
    connection = server.connect()
    connection.settimeout(2)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n".encode()
    answer = b""
    try:
        connection.sendall(head + headers + b"\r\n" + data)
        while piece := connection.recv(1 << 16):
            answer += piece
    except OSError:
        pass
    finally:
        connection.close()
    return answer


def said(answer):
    body = answer.split(b"\r\n\r\n", 1)[-1]
    return json.loads(body) if body.startswith(b"{") else {}


def logged_in(server, name, password):
    return said(ask(server, "/v3/auth/authenticate", {"name": name, "password": password})).get("token", "")


def auth_bypass(server):
    """Nobody gets in, sees the secret, or changes anything, by whatever path and with whatever credentials."""
    for path, body in [
        ("kv/put", {"key": KEY, "value": SECRET}), ("lease/grant", {"TTL": "1000", "ID": "1"}),
        ("auth/user/add", {"name": "root", "password": "right"}), ("auth/user/add", {"name": "alice", "password": "right"}),
        ("auth/user/add", {"name": "gone", "password": "right"}), ("auth/user/grant", {"user": "root", "role": "root"}),
        ("auth/role/add", {"name": "reader"}), ("auth/user/grant", {"user": "gone", "role": "root"}), ("auth/enable", {}),
    ]:
        assert b" 200 OK" in ask(server, f"/v3/{path}", body), path
    stale = logged_in(server, "gone", "right")
    root = f"Authorization: {logged_in(server, 'root', 'right')}\r\n".encode()
    ask(server, "/v3/auth/user/delete", {"name": "gone"}, root)
    root = f"Authorization: {logged_in(server, 'root', 'right')}\r\n".encode()
    before = state(server, root)
    assert SECRET in before, before
    tried = 0
    for who, headers in credentials(stale).items():
        for path, body in GUARDED.items():
            answer = ask(server, f"/v3/{path}", body, headers)
            assert SECRET.encode() not in answer, f"{who}: {path} gave the secret away"
            assert b" 200 OK" not in answer or b'"error"' in answer or b"canceled" in answer, f"{who}: {path}: {answer!r}"
            tried += 1
        for path in SPELLINGS:
            answer = ask(server, path, GUARDED["kv/range"], headers)
            assert SECRET.encode() not in answer, f"{who}: {path} gave the secret away"
            tried += 1
    for name, password in [("root", ""), ("root", "wrong"), ("root\0", "right"), ("ROOT", "right"), ("", ""), ("root", "right\0"), ("gone", "right")]:
        assert not logged_in(server, name, password), (name, password)
        tried += 1
    root = f"Authorization: {logged_in(server, 'root', 'right')}\r\n".encode()
    after = state(server, root)
    ask(server, "/v3/auth/disable", {}, root)
    assert before == after, f"{before} became {after}"
    server.polite()
    return f"{tried} tries, none got in, nothing changed"


def state(server, root):
    """All keys, leases, users and roles, and the revisions of both."""
    everything = ["kv/range", "lease/leases", "auth/user/list", "auth/role/list"]
    found = {path: said(ask(server, f"/v3/{path}", GUARDED[path], root)) for path in everything}
    found["auth/status"] = said(ask(server, "/v3/auth/status", {}, root)).get("authRevision")
    return json.dumps(found, sort_keys=True)
