"""Ports for servers: none is given to two that are about to listen."""

from tenure.testing.ports import SHARES, free_port


def test_no_port_is_given_twice_and_none_that_a_process_beside_would_be_given():
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    assert len({port % SHARES for port in ports}) == 1
