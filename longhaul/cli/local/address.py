"""Where the embedded AWS may listen."""

import errno
import os
import socket

import psutil

from longhaul.local.running import LOOPBACK


class AddressError(RuntimeError):
    """Not an address to listen on: taken, of another machine, or open to others."""


def check_address(host: str, port: int) -> None:
    """Fail before moto is loaded and the stack synthesized, which takes many seconds.

    Raises:
        AddressError: the address cannot, or must not, be listened on.
    """
    # No credentials are checked, and a task is a command on this machine: nothing but this machine
    # and its containers may reach the embedded AWS.
    if host not in (allowed := _own_addresses()):
        raise AddressError(
            f"--host {host}: only this machine and its containers may reach it; "
            f"here that is {' or '.join(allowed)}"
        )
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        way_out = "; `--port 0` picks a free one" if error.errno == errno.EADDRINUSE else ""
        raise AddressError(
            f"cannot listen on port {port} of {host} ({os.strerror(error.errno or 0)}){way_out}"
        ) from error


def _own_addresses() -> list[str]:
    """Loopback, and the addresses on Docker's bridges, which no other machine can reach."""
    bridges = [
        addresses
        for name, addresses in sorted(psutil.net_if_addrs().items())
        if name.startswith(("docker", "br-"))
    ]
    return [
        LOOPBACK,
        *(
            each.address
            for addresses in bridges
            for each in addresses
            if each.family is socket.AF_INET
        ),
    ]
