"""How addresses are counted: a household is one, in whichever of its addresses it comes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis.strategies import integers, ip_addresses

from app.client_network import network_of


@given(ip_addresses(v=4))
def test_an_ipv4_address_is_counted_as_it_is_also_where_the_socket_speaks_ipv6(address: IPv4Address) -> None:
    assert network_of(str(address)) == network_of(f"::ffff:{address}") == str(address)


@given(ip_addresses(network="2000::/3"), integers(0, 2**64 - 1))
def test_whatever_address_of_its_own_64_bits_somebody_takes_is_counted_as_the_same(
    address: IPv6Address, host: int
) -> None:
    assert network_of(str(IPv6Address((int(address) >> 64 << 64) | host))) == network_of(str(address))
    assert network_of(str(IPv6Address(int(address) ^ (1 << 64)))) != network_of(str(address))


@pytest.mark.parametrize("address", ["", "testclient", "unix:"])
def test_what_is_no_address_is_counted_as_it_is(address: str) -> None:
    assert network_of(address) == address


def test_the_zone_of_a_link_local_address_counts_for_nothing() -> None:
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth1") == "fe80::/64"
