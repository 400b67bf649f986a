"""Where settings come from: the command line, the environment, a file, a profile."""

import pytest

from tenure.errors import InvalidInput
from tenure.settings import find_settings
from tenure.stores.options import without_password

FILE = """
url = "sqlite:///jobs.db"
concurrency = 8
queues = ["mail", "default"]

[profiles.staging]
url = "sqlite:////srv/staging.db"
lease = "1m"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tenure.toml").write_text(FILE)
    (tmp_path / "deep" / "down").mkdir(parents=True)
    return tmp_path


def found(folder, **words):
    return find_settings(folder=folder, **{"environment": {}, **words})


def test_the_command_line_stands_before_the_environment_and_the_file(folder):
    environment = {"TENURE_URL": "sqlite:///environment.db"}
    assert found(folder, url="memory://", environment=environment)["url"] == ("memory://", "--url")
    assert found(folder, environment=environment)["url"] == ("sqlite:///environment.db", "$TENURE_URL")
    assert found(folder)["url"] == (f"sqlite:///{folder / 'jobs.db'}", str(folder / "tenure.toml"))
    assert found(folder.parent)["url"] == ("sqlite:///tenure.db", "default")


def test_the_nearest_file_above_holds_and_its_paths_start_there(folder):
    assert found(folder / "deep" / "down")["url"].value == f"sqlite:///{folder / 'jobs.db'}"
    (folder / "deep" / "pyproject.toml").write_text('[tool.tenure]\nurl = "sqlite:///near.db"\n')
    assert found(folder / "deep" / "down")["url"].value == f"sqlite:///{folder / 'deep' / 'near.db'}"


def test_a_pyproject_without_our_table_is_passed_over(folder):
    (folder / "deep" / "pyproject.toml").write_text("[tool.other]\nurl = 1\n")
    assert found(folder / "deep")["concurrency"].value == 8


def test_tenure_toml_stands_before_pyproject_in_one_folder(folder):
    (folder / "pyproject.toml").write_text("[tool.tenure]\nconcurrency = 99\n")
    assert found(folder)["concurrency"].value == 8


def test_a_profile_stands_before_the_rest_of_the_file(folder):
    settings = found(folder, profile="staging")
    assert settings["url"] == ("sqlite:////srv/staging.db", f"profile 'staging' of {folder / 'tenure.toml'}")
    assert settings["lease"].value == "1m"
    assert settings["concurrency"].value == 8
    assert settings.profile == ("staging", "--profile")


def test_a_profile_can_be_chosen_by_the_environment_or_the_file(folder):
    assert found(folder, environment={"TENURE_PROFILE": "staging"})["lease"].value == "1m"
    (folder / "tenure.toml").write_text('profile = "staging"\n' + FILE)
    assert found(folder)["lease"].value == "1m"


def test_an_address_in_the_environment_that_hides_a_chosen_profile_is_pointed_out(folder):
    settings = found(folder, profile="staging", environment={"TENURE_URL": "memory://"})
    assert settings["url"].value == "memory://"
    assert settings.warnings == ("$TENURE_URL stands before the address of profile 'staging'.",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("url = ", "is not valid TOML"),
        ("uri = 'x'", "'uri' is no setting. Known: url, app, queues"),
        ("concurrency = 'many'", "concurrency must be of type int, not 'many'"),
        ("processes = true", "processes must be of type int, not True"),
        ("profiles = {a = 1}", "profiles.a in"),
        ("[profiles.a]\nprofiles = {}", "'profiles' is no setting"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_it(folder, content, error):
    (folder / "tenure.toml").write_text(content)
    with pytest.raises(InvalidInput, match=r"tenure\.toml") as caught:
        found(folder)
    assert error in str(caught.value)


def test_an_unknown_profile_is_an_error_with_the_known_ones(folder):
    with pytest.raises(InvalidInput, match=r"no profile 'production'\. Known: staging\."):
        found(folder, profile="production")
    with pytest.raises(InvalidInput, match="There is no settings file"):
        found(folder.parent, profile="production")


def test_a_password_is_never_shown():
    assert without_password("postgresql://ada:secret@host:5432/jobs") == "postgresql://ada:***@host:5432/jobs"
    assert without_password("sqlite:///jobs.db") == "sqlite:///jobs.db"


def test_config_show_says_where_each_value_came_from(terminal):
    (terminal.folder / "tenure.toml").write_text(FILE)
    shown = terminal.process("config", "show", "--json", "--profile", "staging").json
    assert shown["url"] == {
        "value": "sqlite:////srv/staging.db",
        "source": f"profile 'staging' of {terminal.folder / 'tenure.toml'}",
    }
    assert shown["queues"]["value"] == ["mail", "default"]
    assert shown["profile"] == {"value": "staging", "source": "--profile"}
    answer = terminal.process("config", "show", "--profile", "staging", TENURE_URL="postgresql://ada:secret@host/jobs")
    assert "secret" not in answer.out
    assert ["url", "postgresql://ada:***@host/jobs", "$TENURE_URL"] in [
        line.split() for line in answer.out.splitlines()
    ]
    assert answer.err == "note: $TENURE_URL stands before the address of profile 'staging'.\n"


def test_every_command_goes_by_the_settings(terminal):
    (terminal.folder / "tenure.toml").write_text('url = "sqlite:///elsewhere.db"\n')
    terminal("submit", "-t", "greet")
    assert (terminal.folder / "elsewhere.db").exists()
    assert terminal("--url", "sqlite:///third.db", "list").out == ""
    assert len(terminal("list", "--json").objects) == 1
