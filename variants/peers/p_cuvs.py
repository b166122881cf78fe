"""cuVS's kmeans (RAPIDS): a fused kernel for distances and their minimum, points in the GPU's memory.

As its users run it: RMM's pool is its allocator, made in prepare, so that a fit takes no memory from the driver; the
initial centroids are on the GPU before it. The solve is fit() alone. It returns centroids without labels: predict(),
one more assignment, is in download, so that labels belong to the final centroids and end_to_end pays for them.

What fit() does once (norms of the points, buffers, its first and last look at the cost) is in the solve. An iteration's
time without it is the slope between workloads of two numbers of iterations (plots/lib/slope.py).

cuVS stops by its cost and by how far the centroids moved, not by labels, so only a fixed number of iterations is
comparable. Where the cost, in the points' own type, does not fall it ends early all the same. The validation
lets that pass where nothing would change any more, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from peer import Device, Shape, State

POOL_BYTES = 1 << 28  # at first: it grows in the first solve, which is not timed

CARD = {
    "id": "p_cuvs",
    "idea": "cuVS: kmeans.fit on points in the GPU's memory, with RMM's pool",
    "expect": "no N x K distances in memory: where D is small, faster than every variant that writes them",
    "shows": "solve",
    "source": "cuVS, cuvs.cluster.kmeans",
    "devices": ["cuda"],
    "arithmetic": {"form": "expanded", "sum_roundoff": 0},
    "labels_last": True,
    "library": {"module": "cuvs.cluster.kmeans", "package": "cuvs-cu13"},
}


def refuse(shape: Shape, device: Device, axes: dict[str, int]) -> str:
    if shape.stop.rule != "fixed":
        return "cuVS stops by its cost, by how far centroids moved, or after a number of iterations: not by labels"
    try:
        import cupy

        return "" if cupy.cuda.runtime.getDeviceCount() > 0 else "CuPy finds no GPU"
    except ImportError as error:
        return f"cuVS takes its points from CuPy, which does not load: {error}"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU: {error}"


def prepare(s: State) -> None:
    import cupy
    import rmm
    from cuvs.cluster import kmeans
    from cuvs.common import Resources

    cupy.cuda.Device(s.gpu).use()
    if not isinstance(rmm.mr.get_current_device_resource(), rmm.mr.PoolMemoryResource):  # of a session before
        pool = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=POOL_BYTES)
        rmm.mr.set_current_device_resource(pool)
    s.cupy, s.kmeans, s.resources = cupy, kmeans, Resources()


def upload(s: State) -> None:
    s.x = s.cupy.asarray(s.points)
    s.cupy.cuda.Device().synchronize()


def restart(s: State) -> None:
    s.means = s.cupy.array(s.centroids)  # fit() overwrites them
    s.cupy.cuda.Device().synchronize()


def solve(s: State) -> None:
    # 1e-30: cuVS refuses a tolerance of 0.
    s.how = s.kmeans.KMeansParams(n_clusters=s.k, init_method="Array", max_iter=s.stop.most, tol=1e-30, n_init=1)
    s.means, _, done = s.kmeans.fit(s.how, s.x, centroids=s.means, resources=s.resources)
    s.resources.sync()
    done = min(int(done), s.stop.most)  # cuVS counts one more if nothing ended it
    s.reassigned += [-1] * done  # it does not report how many labels changed


def download(s: State) -> None:
    label, _ = s.kmeans.predict(s.how, s.x, s.means, resources=s.resources)
    s.resources.sync()
    s.label[:] = s.cupy.asarray(label).get()
    s.c[:] = s.cupy.asarray(s.means).get()
