"""What a failing seed shows: what broke, the histories of the tasks concerned, and what happened when."""

from simulated.shrinking import shrink
from simulated.simulation import Simulation


def report(seed):
    """A seed made as small as it gets, and its whole story."""
    simulation = Simulation(seed, [], shrink(seed))
    outcome = simulation.run()
    if not outcome.broken:
        return f"seed {seed} breaks nothing\n" + _story(outcome.story)
    lines = [f"seed {seed} breaks:"]
    for name, sentences in outcome.broken.items():
        lines += [f"  {name}", *(f"    {sentence}" for sentence in sentences)]
    words = " ".join(sentence for sentences in outcome.broken.values() for sentence in sentences)
    for task in simulation.network.store._tasks.values():
        if task.id in words:
            lines += [f"history of {task.id}, {task.input}:"]
            lines += [
                f"  {event.number:3} {event.at:%H:%M:%S.%f} {event.what} -> {event.status}, attempt {event.attempt}, "
                f"fence {event.fence}, {event.worker or '-'} {event.why or ''}"
                for event in task.history
            ]
    return "\n".join([*lines, _story(outcome.story)])


def _story(story):
    return "\n".join(["what happened:", *(f"  {at:9.3f}  {who:9} {what}" for at, who, what in story)])
