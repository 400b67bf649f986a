"""What can be wrong with an object in a bucket: any part of it, or all of it."""

import json

from harm import values
from hypothesis import strategies as st


def parts(value, path=()):
    """The paths to everything inside a value, itself first."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in inside:
        yield from parts(part, (*path, name))


def changed(value, path, change):
    """A copy in which the part at the path is another; what becomes `GONE` is left out."""
    if not path:
        return change(value)
    if isinstance(value, dict):
        found = {name: changed(part, path[1:], change) if name == path[0] else part for name, part in value.items()}
        return {name: part for name, part in found.items() if part is not GONE}
    found = [changed(part, path[1:], change) if number == path[0] else part for number, part in enumerate(value)]
    return [part for part in found if part is not GONE]


GONE = object()


@st.composite
def object_harms(draw):
    """A function that harms the body of an object."""
    kind, place = draw(st.sampled_from(["part", "part", "part", "gone", "cut", "flipped", "anything"])), draw(
        st.integers(0, 10_000)
    )  # fmt: skip
    if kind in ("part", "gone"):
        other = draw(values) if kind == "part" else GONE

        def harm(body):
            value = json.loads(body)
            paths = list(parts(value))[1:]
            return json.dumps(changed(value, paths[place % len(paths)], lambda _: other)).encode()

        return harm
    if kind == "cut":
        return lambda body: body[: place % len(body)]
    if kind == "flipped":
        byte = draw(st.integers(0, 255))
        return lambda body: body[: place % len(body)] + bytes([byte]) + body[place % len(body) + 1 :]
    anything = draw(st.binary(max_size=200))
    return lambda body: anything
