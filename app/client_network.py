"""Where a request comes from, as limits count it: an IPv4 address, or the /64 of an IPv6 one, which is what one household has.

Called by routes whose limits go by address. It is for counting only: behind some proxies anybody can name an address.
"""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address

from app.json_request import JsonRequest

HOUSEHOLD_BITS = 64


def client_network(request: JsonRequest) -> str:
    """Of whoever sent it."""
    return network_of(request.client.host if request.client else "")


def network_of(address: str) -> str:
    """One text for all addresses that somebody can choose among. What is no address is its own network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(IPv6Network((int(found), HOUSEHOLD_BITS), strict=False))
