"""Several processes as one: what the dead have counted stays, their files do not."""

import threading

from prometheus_client import generate_latest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from tenure.observe.together import bury, registry_of

KEYS = {
    "counter": mmap_key("tenure_done", "tenure_done_total", ["queue"], ["default"], "Done."),
    "histogram": mmap_key("tenure_took", "tenure_took_bucket", ["le"], ["1.0"], "Took."),
    "gauge_livemostrecent": mmap_key("tenure_depth", "tenure_depth", [], [], "Depth."),
}


def process(folder, pid, value):
    """The files that a process leaves behind."""
    for kind, key in KEYS.items():
        file = MmapedDict(str(folder / f"{kind}_{pid}.db"))
        file.write_value(key, value, 1.0)
        file.close()


def shown(folder):
    lines = generate_latest(registry_of(str(folder))).decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_what_the_dead_have_counted_stays_and_what_they_showed_goes(tmp_path):
    for pid in range(1000, 1050):
        process(tmp_path, pid, 2.0)
    process(tmp_path, 2000, 2.0)
    before = shown(tmp_path)
    for pid in range(1000, 1050):
        bury(str(tmp_path), pid)
    assert shown(tmp_path) == before
    assert before['tenure_done_total{queue="default"}'] == "102.0"
    assert before['tenure_took_bucket{le="1.0"}'] == "102.0"
    bury(str(tmp_path), 2000)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["counter_dead.db", "histogram_dead.db"]
    assert "tenure_depth" not in shown(tmp_path)


def test_a_scrape_beside_a_burial_counts_each_process_once(tmp_path):
    pids = range(1000, 1200)
    for pid in pids:
        process(tmp_path, pid, 1.0)
    burying = threading.Thread(target=lambda: [bury(str(tmp_path), pid) for pid in pids])
    burying.start()
    seen = {"200.0"}
    while burying.is_alive():
        seen.add(shown(tmp_path)['tenure_done_total{queue="default"}'])
    burying.join()
    assert seen == {"200.0"}


def test_a_process_that_died_while_it_made_its_file_harms_no_scrape(tmp_path):
    process(tmp_path, 1000, 1.0)
    (tmp_path / "counter_1001.db").touch()
    bury(str(tmp_path), 1001)
    assert shown(tmp_path)['tenure_done_total{queue="default"}'] == "1.0"
