import pytest

from tenure import Worker, connect
from tenure.testing import FakeClock


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
async def queue(url, clock):
    async with connect(url, clock=clock) as queue:
        yield queue


@pytest.fixture
def run(queue):
    """Run what is due: inputs that are texts are errors to raise, others are results."""

    async def run(retry=None, **settings):
        worker = Worker(queue, retry=retry, **settings)

        @worker.task("job")
        async def job(input):
            if isinstance(input, str):
                raise ValueError(input)  # noqa: TRY004 - it stands for any failure
            return input

        return await worker.run(until_idle=True)

    return run
