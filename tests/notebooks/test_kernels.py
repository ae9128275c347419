"""A notebook's kernel whose port is taken as it starts lives at the second try."""

import socket

import pytest
from jupyter_client.connect import ConnectionFileMixin
from nbval import kernel


def _taken_port(monkeypatch, times):
    """Let the next `times` kernels get a port that another socket holds."""
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    write = ConnectionFileMixin.write_connection_file
    written = []

    def write_with_taken_port(self, **kwargs):
        written.append(self)
        if len(written) <= times:
            self.shell_port = taken.getsockname()[1]
        write(self, **kwargs)

    monkeypatch.setattr(ConnectionFileMixin, "write_connection_file", write_with_taken_port)
    return taken, written


def _start():
    return kernel.start_new_kernel(kernel_name=kernel.CURRENT_ENV_KERNEL_NAME, startup_timeout=60)


def test_a_kernel_that_dies_as_it_starts_is_started_again(monkeypatch):
    taken, written = _taken_port(monkeypatch, times=1)
    with taken, pytest.warns(UserWarning, match="start 1 of a kernel"):
        manager, client = _start()
    assert len(written) == 2
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_kernel_that_never_lives_is_an_error(monkeypatch):
    taken, written = _taken_port(monkeypatch, times=99)
    with (
        taken,
        pytest.warns(UserWarning, match="of a kernel"),
        pytest.raises(RuntimeError, match="died"),
    ):
        _start()
    assert len(written) == 3
