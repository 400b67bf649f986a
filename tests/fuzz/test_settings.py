"""Any settings file and any environment gives settings, or an error that names what is wrong."""

import contextlib

import pytest
from budget import searched
from hypothesis import given
from hypothesis import strategies as st

from tenure import InvalidInput
from tenure.settings import DEFAULTS, find_settings

values = st.sampled_from(
    [
        "1",
        "-1",
        "1.5",
        "true",
        '"text"',
        '""',
        "[]",
        '["a", 1]',
        "{}",
        "{a = 1}",
        "2026-01-28",
        '"sqlite:///x.db"',
        "nan",
    ]
)
names = st.sampled_from(
    [*DEFAULTS, "profile", "profiles", "profiles.a", "profiles.a.url", "tool", "tool.tenure", "x", ""]
)
lines = st.builds("{} = {}".format, names, values) | st.builds("[{}]".format, names) | st.text(max_size=20)


@pytest.mark.parametrize("file", ["tenure.toml", "pyproject.toml"])
@searched
@given(text=st.lists(lines, max_size=5).map("\n".join), environment=st.dictionaries(
    st.sampled_from(["TENURE_URL", "TENURE_PROFILE"]), st.text(max_size=8)
), profile=st.none() | st.text(max_size=3))  # fmt: skip
def test_any_settings_file_is_understood_or_refused_in_words(tmp_path, file, text, environment, profile):
    (tmp_path / file).write_text(text, errors="replace")
    with contextlib.suppress(InvalidInput):
        found = find_settings(environment=environment, profile=profile, folder=tmp_path)
        assert set(found) == set(DEFAULTS)


@pytest.mark.parametrize("bytes_", [b"\xff\xfe", b"\x00", b"[" * 5000, b"a = " + b"[" * 5000])
def test_a_file_that_is_no_settings_is_refused(tmp_path, bytes_):
    (tmp_path / "tenure.toml").write_bytes(bytes_)
    with pytest.raises(InvalidInput):
        find_settings(environment={}, folder=tmp_path)
