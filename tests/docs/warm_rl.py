"""`rl` for the pages' shell blocks, without its imports: each command is a fork of one process that has done them.

Half of what a page takes would else be the same imports, command after command. What a command is given (words,
folder, environment, its three files, signals) and what it gives back are those of a process of its own; that `rl`
starts from nothing is tested where commands are (`tests/cli`).

    python -m tests.docs.warm_rl SOCKET      serves until it is killed
"""

import atexit
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

_LENGTH = struct.Struct("!I")
_STATUS = struct.Struct("!i")
_SHIM = """\
#!{python} -IS
import json, os, signal, socket, struct
import sys
server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [struct.pack("!I", len(request))], [0, 1, 2])
server.sendall(request)
pid, = struct.unpack("!i", server.recv(4, socket.MSG_WAITALL))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
status, = struct.unpack("!i", server.recv(4, socket.MSG_WAITALL))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@contextlib.contextmanager
def warm_rl(folder: Path):
    """A folder with an `rl` that is warm, for the front of PATH."""
    path = folder / "socket"
    shim = folder / "rl"
    shim.write_text(_SHIM.format(python=sys.executable, path=str(path)))
    shim.chmod(0o755)
    command = [sys.executable, "-m", "tests.docs.warm_rl", str(path)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, env={**os.environ, "OMP_NUM_THREADS": "1"}) as server:
        try:
            deadline = time.monotonic() + 120
            while not path.exists():
                assert server.poll() is None, "the warm process ended"
                assert time.monotonic() < deadline, "the warm process did not start"
                time.sleep(0.05)
            yield folder
        finally:
            server.kill()


def serve(path: str) -> None:
    """Forks a command per connection, and tells each how its command ended."""
    import tests.lake.warm  # noqa: F401  (what takes time is imported there)

    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    unready = f"{path}.unready"
    listener.bind(unready)
    listener.listen(16)
    Path(unready).rename(path)
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is listener:
                    _start(listener, waiting)
                elif isinstance(key.fileobj, socket.socket):  # whoever asked is gone
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(key.data, signal.SIGKILL)
                    waiting.unregister(key.fileobj)
                else:
                    _finish(key, waiting)


def _start(listener: socket.socket, waiting: selectors.BaseSelector) -> None:
    client, _ = listener.accept()
    head, files, _, _ = socket.recv_fds(client, _LENGTH.size, 3)
    size = _LENGTH.unpack(head)[0]
    words, folder, environment = json.loads(client.recv(size, socket.MSG_WAITALL))
    pid = os.fork()
    if pid == 0:
        listener.close()
        client.close()
        waiting.close()
        _become(words, folder, environment, files)
    for file in files:
        os.close(file)
    client.sendall(_STATUS.pack(pid))
    waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, client))
    waiting.register(client, selectors.EVENT_READ, pid)


def _finish(key: selectors.SelectorKey, waiting: selectors.BaseSelector) -> None:
    pid, client = key.data
    waiting.unregister(key.fileobj)
    os.close(key.fd)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(KeyError):
        waiting.unregister(client)
    with contextlib.suppress(OSError):
        client.sendall(_STATUS.pack(status))
    client.close()


def _become(words: list[str], folder: str, environment: dict[str, str], files: list[int]) -> None:
    from alphaswarm_rl.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    sys.argv = ["rl", *words]
    sys.path[0] = str(Path(sys.executable).parent)  # as an installed command has it
    try:
        main()
    except SystemExit as end:
        # As Python ends, but for taking everything apart that is imported here, which takes most of a second.
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)


if __name__ == "__main__":
    serve(sys.argv[1])
