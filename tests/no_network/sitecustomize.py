"""Refuses connections to other hosts, in the test process and in every Python process it starts."""

import ipaddress
import socket

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_sendto = socket.socket.sendto


def _refuse(self, address):
    if self.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = address[0]
    if host in ("localhost", ""):
        return
    try:
        if ipaddress.ip_address(host).is_loopback:
            return
    except ValueError:
        pass
    raise OSError(f"tests may not connect to another host: {host!r}")


def connect(self, address):
    _refuse(self, address)
    return _connect(self, address)


def connect_ex(self, address):
    _refuse(self, address)
    return _connect_ex(self, address)


def sendto(self, data, *rest):
    _refuse(self, rest[-1])
    return _sendto(self, data, *rest)


socket.socket.sendto = sendto
socket.socket.connect = connect
socket.socket.connect_ex = connect_ex
