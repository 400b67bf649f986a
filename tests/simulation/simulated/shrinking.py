"""Makes a failing seed smaller: what can be left out while the same invariant breaks is left out."""

from simulated.simulation import Simulation, simulate


def shrink(seed):
    """The parts of its plan that a seed does not need to fail."""
    broken = set(simulate(seed).broken)
    without = set()
    for part in list(Simulation(seed).plan.parts()):
        if broken & set(simulate(seed, without=without | {part}).broken):
            without.add(part)
    return without
