"""Secrets are hidden by the names of their fields, however deep, quoted and nested, and whatever else is in the text."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from tenure.observe.redaction import DEEPEST, LONGEST, Redaction

redacted = Redaction()


class Pay(BaseModel):
    user: str
    password: str = Field(min_length=40)
    amount: int


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Conf(tokens=['aaa', 'x'], n=1)", "Conf(tokens=[redacted], n=1)"),
        ("secret={'a': 'x', 'b': ['y', ('z',)]} n=1", "secret=[redacted] n=1"),
        ('{"password": "ab\\"x", "n": 1}', '{"password": [redacted], "n": 1}'),
        ('"{\\"password\\": \\"ab\\\\\\"x\\", \\"n\\": 1}"', '"{\\"password\\": [redacted], \\"n\\": 1}"'),
        ("password=ab&c;d", "password=[redacted]"),
        ("password=a,b)", "password=[redacted])"),
        ("https://a?token=y&b=1", "https://a?token=[redacted]&b=1"),
        ("Conf(key=SecretKey('x y'), password=Secret('x y'))", "Conf(key=SecretKey('x y'), password=[redacted])"),
        ("(b'authorization', b'Bearer x')", "(b'authorization', [redacted])"),
        ("[('password', 'x'), ('n', 1)]", "[('password', [redacted]), ('n', 1)]"),
        ('{"name": "DB_PASSWORD", "value": "x"}', '{"name": "DB_PASSWORD", "value": [redacted]}'),
        ("env['PASSWORD'] = 'x'", "env['PASSWORD'] = [redacted]"),
        ("api key: x", "api key: [redacted]"),
        ("Cookie: a=b; session=x\nHost: h", "Cookie: [redacted]\nHost: h"),
        ('Authorization: Digest user="x", response="y"\nHost: h', "Authorization: [redacted]\nHost: h"),
        ("Authorization: Bearer x failed", "Authorization: [redacted] failed"),
        ("pwd=x passcode=y passphrase=z", "pwd=[redacted] passcode=[redacted] passphrase=[redacted]"),
        ("postgres://u:a/b@c@h/db", "postgres://u:[redacted]@h/db"),
        ("redis://:x@h http://h:80/u@v", "redis://:[redacted]@h http://h:80/u@v"),
        ("https://x@h/repository.git ssh://git@h", "https://[redacted]@h/repository.git ssh://git@h"),
        ("password='never closed", "password=[redacted]"),
        ("password=", "password="),
        ("{'note': 'token=', 'password': 'x'}", "{'note': 'token=[redacted]': [redacted]}"),
        ("the word password is no field", "the word password is no field"),
    ],
)
def test_a_secret_in_a_text_is_hidden_up_to_where_it_ends(text, expected):
    assert redacted(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([("Authorization", "Bearer x"), ("Host", "h")], [["Authorization", "[redacted]"], ["Host", "h"]]),
        ([["'Authorization'", "'Bearer x'"]], [["'Authorization'", "[redacted]"]]),
        ([(b"cookie", b"x")], [["b'cookie'", "[redacted]"]]),
        ({"name": "DB_PASSWORD", "value": "x"}, {"name": "DB_PASSWORD", "value": "[redacted]"}),
        ({"Key": "db.password", "Values": ["x"]}, {"Key": "db.password", "Values": "[redacted]"}),
        ({"name": "ada", "value": "x"}, {"name": "ada", "value": "x"}),
        ({"db.password": "x", b"token": "y"}, {"db.password": "[redacted]", b"token": "[redacted]"}),
        (b"password=x", "b'password=[redacted]'"),
        ({"password=x"}, ["password=[redacted]"]),
    ],
)
def test_a_secret_in_a_structure_is_hidden_whatever_its_form(value, expected):
    assert redacted(value) == expected


def test_what_pydantic_says_of_a_refused_input_is_told_without_the_input():
    with pytest.raises(ValidationError) as refused:
        Pay.model_validate({"user": {"a": "hunter2" * 9, "b": "hunter2'"}, "password": "hunter2", "amount": "hunter2"})
    words = redacted(str(refused.value))
    assert "hunter2" not in words
    assert words.count("input_value=[redacted], input_type=") == 3
    assert "String should have at least 40 characters" in words


def test_things_are_told_in_their_own_words_without_secrets_and_one_without_words_harms_nobody():
    class Silent:
        def __repr__(self):
            raise OSError

    class Talks:
        def __repr__(self):
            return "Talks(password='x')"

    assert redacted([Silent(), Talks()]) == ["<Silent whose repr() raises OSError>", "Talks(password=[redacted])"]


def test_what_refers_to_itself_is_told_once():
    ring = {"n": 1}
    ring |= {"inside": [ring], "again": ring}
    assert redacted(ring) == {"n": 1, "inside": ["…"], "again": "…"}


def test_what_is_very_deep_is_left_out():
    deep = "x"
    for _ in range(5_000):
        deep = [deep]
    assert str(redacted(deep)) == "[" * DEEPEST + "'…'" + "]" * DEEPEST


def test_a_long_text_is_cut_and_says_so():
    assert redacted("x" * (LONGEST + 7)) == "x" * LONGEST + "… [7 more characters]"
    address = "postgres://u:hunter2"
    cut = redacted("x" * (LONGEST - len(address)) + address + "@h")
    assert cut.endswith(f"xpostgres… [{len(address) + 2 - len('postgres')} more characters]")


NESTED = {
    "hex": "a1b2",
    "a ruled line": "-",
    "base64 for addresses": "aB3_-9zK",
    "base64": "aB3+/9zK",
    "names": "password",
    "names and spaces": "password   ",
    "fields": "a=",
    "empty secrets": "password=",
    "open brackets": "password=[",
    "open brackets and quotes": 'password=["\\\\"',
    "closed brackets": "password=[]}x",
    "quotes": "'\"",
    "backslashes": "\\",
    "escaped quotes": 'password=\\"',
    "apostrophes": "password=it's ",
    "commas": "password=a,b,c",
    "pairs": "'password', ",
    "addresses": "://a:",
    "ports": "http://a:1",
    "headers": "authorization: x ",
    "lines": "cookie: \n",
    "refused inputs": "input_value=",
    "cut inputs": "input_value=, input_type=",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("begin", ["", "password='"])
@pytest.mark.parametrize("piece", NESTED.values(), ids=NESTED)
def test_a_million_characters_of_anything_are_searched_in_one_go(monkeypatch, begin, piece):
    """What is retried from every place would take hours."""
    monkeypatch.setattr("tenure.observe.redaction.LONGEST", 2_000_000)
    redacted(begin + piece * (1_000_000 // len(piece)))


def test_a_secret_within_another_one_is_hidden_with_it():
    assert redacted("secret=[token=a, password='b']") == "secret=[redacted]"
    assert redacted("secret=" + "[password=" * 50 + "x") == "secret=[redacted]"


HIDDEN = "hunter2"
around = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(lambda text: text.replace(HIDDEN, ""))
names = st.sampled_from(["password", "DB_PASSWORD", "api-key", "x-token", "sessionId"])
texts = st.builds(lambda before, after: before + HIDDEN + after, around, around)
secrets = st.recursive(
    texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(around, inner, max_size=3), max_leaves=6
)
others = st.dictionaries(around, around | st.integers() | st.none(), max_size=3)
within = st.one_of(
    st.builds(lambda name, secret, before, after: {**before, name: secret, **after}, names, secrets, others, others),
    st.builds(lambda name, secret: [(name, secret)], names, secrets),
    st.builds(lambda name, secret: {"name": name, "value": secret}, names, secrets),
)
ways = st.sampled_from(
    [
        lambda value: value,
        repr,
        json.dumps,
        lambda value: json.dumps(value, ensure_ascii=False, indent=1),
        lambda value: json.dumps(json.dumps(value)),
        lambda value: json.dumps(json.dumps(json.dumps(value))),
        lambda value: {"inside": [repr(value)]},
        lambda value: f"Conf({value!r}, other='x')",
        lambda value: repr(value).encode(),
    ]
)


@settings(max_examples=300, deadline=None)
@given(within, ways)
def test_no_secret_gets_through(value, way):
    assert HIDDEN not in str(redacted(way(value)))


@settings(max_examples=300, deadline=None)
@given(names, texts, st.sampled_from(["{0}={1!r}", "Conf(n=1, {0}={1!r}, m=2)", "?{0}={2}&n=1", "x://u:{2}@h/p"]))
def test_no_secret_gets_through_a_sentence(name, secret, form):
    assert HIDDEN not in redacted(form.format(name, secret, quote(secret)))


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("password=:,;&[](){}'\"\\ \nx@/") | st.characters()))
def test_any_text_can_be_searched(text):
    assert isinstance(redacted(text), str)
