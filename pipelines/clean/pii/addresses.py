"""IP addresses that are reachable from everywhere. Private, documentation and well-known ones are nobody's.

Four small numbers with dots are more often a version, so these need words or signs that make them an address.
"""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_network

from pipelines.clean.pii.finding import Finding, Window, words
from pipelines.clean.pii.triggers import IP, VERSION

_NOBODYS = words(
    "1.0.0.1 1.1.1.1 4.2.2.1 4.2.2.2 4.4.4.4 8.8.4.4 8.8.8.8 9.9.9.9 149.112.112.112 208.67.220.220 "
    "208.67.222.222 1.2.3.4 5.6.7.8 2.2.2.2 3.3.3.3 5.5.5.5 6.6.6.6 7.7.7.7 2001:4860:4860::8888 "
    "2001:4860:4860::8844 2606:4700:4700::1111 2606:4700:4700::1001 2620:fe::fe"
)
"""Public name servers, and what stands for any address in examples."""
_NOT_ASSIGNED = (ip_network("3fff::/20"), ip_network("192.0.0.0/24"))
"""RFC 9637 and RFC 6890, which some releases of Python call global."""
_NETWORK = re.compile(r"/(\d{1,3})(?!\d)")
_PORT = re.compile(r":\d{2,5}(?!\d|\.\d)")
_LARGEST_OF_A_VERSION = 31
_FIRST_OF_A_VERSION = 9


def ipv4(window: Window) -> Iterator[Finding]:
    """A public IPv4 address."""
    text = window.found
    address = IPv4Address(text)
    if (
        not address.is_global
        or address.is_multicast
        or text in _NOBODYS
        or address in _NOT_ASSIGNED[1]
        or _is_network(window, 32)
    ):
        return
    before = window.before(3)
    if before[-1:] in ("-", ".", "_", "^", "~", "\\") or before[-2:] in ("==", ">=", "<=", "~=", "!=", ">", "<"):
        return
    in_url = before.endswith(("//", "@")) or _PORT.match(window.text, window.stop) is not None
    if before.endswith("/") and not in_url and before[-2:-1].isalnum():
        return  # as in Chrome/120.0.0.1
    octets = address.packed
    versionlike = octets[0] <= _FIRST_OF_A_VERSION or max(octets) <= _LARGEST_OF_A_VERSION
    said = in_url or window.context & IP
    if not in_url and (window.context & VERSION or octets[3] == 0):
        return
    if versionlike and not said:
        return
    yield Finding("ip", window.start, window.stop, "IPv4")


def ipv6(window: Window) -> Iterator[Finding]:
    """A public IPv6 address."""
    try:
        address = IPv6Address(window.found)
    except ValueError:
        return
    if window.found.endswith("::"):
        return  # a network, or a year
    known = str(address) in _NOBODYS or address in _NOT_ASSIGNED[0]
    if address.is_global and not address.is_multicast and not known and not _is_network(window, 128):
        yield Finding("ip", window.start, window.stop, "IPv6")


def _is_network(window: Window, bits: int) -> bool:
    """Whether a length of prefix follows that makes it a network, not one machine."""
    match = _NETWORK.match(window.text, window.stop)
    return match is not None and int(match.group(1)) < bits
