"""Any text as an address is understood or refused in words, and no password is among them."""

import contextlib
import importlib
import traceback

import pytest
from budget import searched
from hypothesis import given
from hypothesis import strategies as st

from tenure import TenureError
from tenure.stores import sqlite_path
from tenure.stores.options import separated, without_password

SECRET = "s3cr3tXYZ"
READERS = {
    name: importlib.import_module(f"tenure.stores.{name}.address").read_address
    for name in ("postgres", "dynamodb", "s3", "etcd")
} | {"sqlite": sqlite_path}
SCHEMES = {"postgres": "postgresql", "dynamodb": "dynamodb", "s3": "s3", "etcd": "etcd", "sqlite": "sqlite"}
signs = st.text(st.sampled_from("ab1:/@?&=#%[]. ,-_é\0\\"), max_size=25) | st.text(max_size=15)


@pytest.mark.parametrize("kind", READERS)
@searched
@given(rest=signs)
def test_any_address_is_understood_or_refused_in_words(kind, rest):
    with contextlib.suppress(TenureError):
        READERS[kind](f"{SCHEMES[kind]}://{rest}")


@pytest.mark.parametrize("kind", ["postgres", "etcd"])
@searched
@given(before=st.text(st.sampled_from("ab:/@#%&!"), max_size=4), rest=signs)
def test_no_error_about_an_address_shows_its_password(kind, before, rest):
    url = f"{SCHEMES[kind]}://ada:{before}{SECRET}@{rest}"
    assert SECRET not in without_password(url)
    try:
        READERS[kind](url)
    except TenureError as error:
        assert SECRET not in "".join(traceback.format_exception(error)), url  # noqa: PT017 - most addresses are fine


@pytest.mark.parametrize("name", ["password", "sslpassword", "secret", "aws_secret_access_key", "token", "KEY"])
def test_a_secret_among_the_options_is_hidden(name):
    assert SECRET not in without_password(f"s3://bucket?{name}={SECRET}&region=eu")


@searched
@given(st.text(max_size=40))
def test_any_text_can_be_taken_apart_into_addresses(text):
    assert "".join(separated(text)).replace(" ", "") or not text.strip()
