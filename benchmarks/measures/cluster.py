"""A controller and a dispatcher with a real Kubernetes API server: what Triggers cost at rest, and one that changes.

`benchmarks.cluster` measures any number of objects. Only Penstock has this, and only where the API server is built
(`make kube`): nobody who measures a hot path waits fifteen minutes for Go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.cluster import SCENES, Size, measure
from benchmarks.figures import Row
from benchmarks.implementation import Implementation, NotOffered
from benchmarks.lab import Lab
from benchmarks.measures.analytics import own
from benchmarks.measures.measure import Measure, Values
from tests.support.kube.build import is_server_built
from tests.support.kube.cluster import KubeCluster

_OBJECTS = 500
REST = Row(f"controller, {_OBJECTS} Triggers at rest: cores", "cores", 0.02, digits=3)
MEMORY = Row(f"controller, {_OBJECTS} Triggers: RSS", "MB", 300, digits=0)
CHANGE_CPU = Row("controller, one changed Trigger: CPU", "ms", 50)
CHANGE = Row("controller, one changed Trigger: until it is ready", "s", 1, digits=2)
TRIGGER = Row("dispatcher, memory of each Trigger", "kB", 60)

(_SCENE,) = (scene for scene in SCENES if scene.dispatcher)


@contextmanager
def _scene(lab: Lab, implementation: Implementation) -> Iterator[Callable[[], Values]]:
    own(implementation, "controller")
    if not is_server_built():
        raise NotOffered("controller")
    folder = lab.new_folder("cluster")
    with KubeCluster(folder / "kube") as kube:

        def once() -> Values:
            size = Size(objects=lab.events(_OBJECTS), changes=10, idle=lab.seconds(20.0))
            figures = measure(kube, lab.kafka, lab.new_folder("triggers"), _SCENE, size)
            return {
                REST: figures["idle_cpu_percent"] / 100,
                MEMORY: figures["rss_mb"],
                CHANGE_CPU: figures["change_cpu_ms"],
                CHANGE: figures["change_median_s"],
                TRIGGER: figures["dispatcher_kb_each"],
            }

        yield once


MEASURES = (
    Measure(
        "controller",
        f"a controller and a dispatcher with {_OBJECTS} Triggers in a real API server",
        (REST, MEMORY, CHANGE_CPU, CHANGE, TRIGGER),
        _scene,
        once=True,
    ),
)
