#!/usr/bin/env python3
"""Lets clients that speak no TLS reach a server that demands it: tls-bridge.py PORT TARGET-PORT AUTHORITY CERT KEY

Listens on localhost:PORT, and for each connection opens one to localhost:TARGET-PORT over TLS, with the client's certificate.
What protocol to ask for is seen from the first bytes: HTTP/2 begins with a fixed preface. Everything behind that is passed on
as it is, in both directions.
"""

import asyncio
import ssl
import sys

PREFACE = b"PRI * HTTP/2.0"
PIECE = 1 << 16


def context(protocol, authority, cert, key):
    made = ssl.create_default_context(cafile=authority)
    made.load_cert_chain(cert, key)
    made.set_alpn_protocols([protocol])
    return made


async def pump(reader, writer):
    """Passes bytes on until there are no more."""
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    except (ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def connect(reader, writer, target, contexts):
    first = b""
    while len(first) < len(PREFACE) and PREFACE.startswith(first):
        piece = await reader.read(PIECE)
        if not piece:
            writer.close()
            return
        first += piece
    secure = contexts["h2" if first.startswith(PREFACE) else "http/1.1"]
    try:
        far_reader, far_writer = await asyncio.open_connection("localhost", target, ssl=secure)
    except OSError as error:
        print(f"tls-bridge: {error}", file=sys.stderr)
        writer.close()
        return
    far_writer.write(first)
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)


async def main():
    port, target, authority, cert, key = sys.argv[1:]
    contexts = {protocol: context(protocol, authority, cert, key) for protocol in ("h2", "http/1.1")}

    async def accept(reader, writer):
        try:
            await connect(reader, writer, int(target), contexts)
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(accept, "localhost", int(port))
    async with server:
        await server.serve_forever()


asyncio.run(main())
