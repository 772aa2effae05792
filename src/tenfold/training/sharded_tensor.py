"""In the workers of a launch: a module of PyTorch whose weights are cut, so that each worker computes with its part.

```
mesh=(2, 2)          model 0     model 1
first half of rows   worker 0    worker 1      side by side: the same rows, other parts of each weight (DTensor)
second half          worker 2    worker 3      one above the other: other rows, and these parts divided by FSDP2
```

What is not cut (norms, convolutions, attention's own) is divided among all of them by FSDP2.

A layer that is cut takes whole inputs and gives whole outputs, so that any module stays what it is; only between two
layers that follow each other in a Sequential, numbers stay cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from tenfold.fuse.building import Member
from tenfold.training.cutting import cuts, pairs
from tenfold.training.sharded_torch import Shards, names, scatter
from tenfold.training.sharding import MODEL, ROWS, Shape

if TYPE_CHECKING:
    from tenfold.fuse.fit import Fit


class Tensors(Shards):
    """One worker's part of a module whose weights are cut."""

    def __init__(self, fit: Fit, member: Member, shape: Shape) -> None:
        self._shape = shape
        super().__init__(fit, member)

    @property
    def _shares_rows(self) -> bool:
        return (self._shape.mesh or (1,))[0] > 1

    def _divide(self) -> None:
        rows, parts = self._shape.mesh or (1, self._count)
        found = cuts(self._module, parts, self._shape.layout or {})
        groups = names(self._module, self._optimizer)
        mesh = init_device_mesh(self._blocks.device.type, (rows, parts), mesh_dim_names=(ROWS, MODEL))
        layers = [self._module.get_submodule(name) for name in found]
        for layer, style in zip(layers, _styles(self._module, found), strict=True):
            parallelize_module(layer, mesh[MODEL], style)
            # What comes of gathering is a view, which layers that work in place would not be allowed to write to.
            layer.register_forward_hook(lambda _layer, _inputs, outputs: outputs.clone())
            if rows > 1:
                fully_shard(layer, mesh=mesh[ROWS])
        scatter(self._module, init_device_mesh(self._blocks.device.type, (self._count,)), layers)
        # In evaluation, a transformer layer would take weights past the layers that have them.
        torch.backends.mha.set_fastpath_enabled(False)
        self._row, self._rows, self._group = self._rank // parts, rows, mesh[ROWS].get_group()
        _regroup(self._optimizer, dict(self._module.named_parameters()), groups)


def _styles(module: Any, found: dict[str, int]) -> list[Any]:
    """PyTorch's word for each cut. Of a Linear, its outputs are its columns; of an Embedding, its width."""
    joined = pairs(module, found)
    before, after = {first for first, _ in joined}, {second for _, second in joined}
    styles = []
    for name, axis in found.items():
        columns = axis == (1 if isinstance(module.get_submodule(name), torch.nn.Embedding) else 0)
        kind = ColwiseParallel if columns else RowwiseParallel
        takes, gives = (Shard(-1) if name in some else Replicate() for some in (after, before))
        styles.append(kind(input_layouts=takes, output_layouts=gives, use_local_output=name not in before))
    return styles


def _regroup(optimizer: Any, parts: dict[str, Any], groups: list[list[str]]) -> None:
    """Give the optimizer the parts, in groups of one kind: it updates a group at once, which must be on one mesh."""
    divided = []
    for group, wanted in zip(optimizer.param_groups, groups, strict=True):
        kinds: dict[Any, list[Any]] = {}
        for name in wanted:
            kinds.setdefault(getattr(parts[name], "device_mesh", None), []).append(parts[name])
        divided += [{**group, "params": some} for some in kinds.values()]
    optimizer.param_groups[:] = divided
