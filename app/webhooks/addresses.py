"""Which addresses webhooks may go to: those of the internet, and of networks that the settings name. Pure.

An address inside an IPv6 one (mapped, 6to4, Teredo, NAT64) counts as itself: it is where the packets go. Forms of that kind that
nobody routes on the internet (compatible, translated) have to be allowed as well as what is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""Outside of it nothing of IPv6 is on the internet."""

DOCUMENTATION = IPv6Network("3fff::/20")
"""RFC 9637, younger than Python's own table."""

NAT64 = IPv6Network("64:ff9b::/96")
COMPATIBLE = IPv6Network("::/96")
TRANSLATED = IPv6Network("::ffff:0:0:0/96")
"""IPv4 inside IPv6 as nobody writes it any more (RFC 4291, RFC 2765), and some systems still follow."""


class AddressRules:
    """Owns the networks that are allowed beside the internet."""

    def __init__(self, private_networks: str) -> None:
        """Raises ValueError for what is no list of networks."""
        self._allowed: list[Network] = [
            ip_network(text.strip(), strict=False) for text in private_networks.split(",") if text.strip()
        ]

    def allows(self, text: str) -> bool:
        """Whether this address may be connected to. What is no address may not."""
        try:
            # Without the zone of a link-local address.
            address = ip_address(text.partition("%")[0])
        except ValueError:
            return False
        return all(self._allows(each) for each in _meant(address))

    def _allows(self, address: Address) -> bool:
        if any(address in network for network in self._allowed):
            return True
        if isinstance(address, IPv6Address) and (address not in GLOBAL_UNICAST or address in DOCUMENTATION):
            return False
        return address.is_global and not address.is_multicast


def _meant(address: Address) -> Iterator[Address]:
    """Where packets to it end."""
    if isinstance(address, IPv4Address):
        yield address
        return
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        yield from address.teredo
    elif address in NAT64:
        yield last
    elif (inner := address.ipv4_mapped or address.sixtofour) is not None:
        yield inner
    else:
        yield address
        if address in TRANSLATED or (address in COMPATIBLE and int(address) > 1):
            yield last
