import socket
import subprocess
import sys

import pytest

CONNECT = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"


def test_the_test_process_reaches_no_other_host():
    with pytest.raises(OSError, match="may not connect"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


def test_its_subprocesses_reach_no_other_host():
    done = subprocess.run([sys.executable, "-c", CONNECT], capture_output=True, text=True)
    assert done.returncode != 0
    assert "may not connect" in done.stderr


def test_loopback_stays_open():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]) as client:
        assert client.getpeername() == server.getsockname()


def test_a_datagram_reaches_no_other_host():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender, pytest.raises(OSError, match="may not connect"):
        sender.sendto(b"x", ("192.0.2.1", 53))
