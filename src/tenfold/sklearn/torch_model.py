"""A PyTorch module in this process: to predict with, and to go on training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
import torch

from tenfold.fuse import columns
from tenfold.fuse.building import construct
from tenfold.fuse.result import Weights
from tenfold.fuse.torch_plain import Single, unpacked
from tenfold.fuse.torch_step import Blocks, Randomness
from tenfold.sklearn.craft import Columns
from tenfold.sklearn.making import Maker
from tenfold.work import seeds


class TorchModel:
    """A `Model` of PyTorch."""

    def __init__(self, maker: Maker, params: Mapping[str, Any]) -> None:
        with seeds.restored():
            self._built = unpacked(construct(maker, params))
            self._randomness = Randomness()
        self.model = self._built[0]
        self.model.eval()
        self._blocks = Blocks(self.model)

    def put(self, weights: Weights) -> None:
        assert isinstance(weights, dict)
        self.model.load_state_dict({name: torch.from_numpy(numpy.array(array)) for name, array in weights.items()})

    def weights(self) -> Weights:
        return self._single(1).weights()

    def outputs(self, x: numpy.ndarray) -> numpy.ndarray:
        data = self._blocks.tensors(columns.Columns(x, None, None))
        with seeds.restored():
            found = self._single(1).outputs(data, None, None)
        assert isinstance(found, numpy.ndarray)
        return found

    def train(self, data: Columns, order: numpy.ndarray, batch_size: int) -> dict[str, float]:
        single = self._single(batch_size)
        block = columns.Columns(*data)
        single.check(block)
        with seeds.restored():
            single.train(self._blocks.tensors(block), self._blocks.rows(order))
        self.model.eval()
        logs = single.logs()
        single.close(logs)
        return logs

    def state(self) -> Any:
        return self._single(1).state()

    def restore(self, state: Any) -> None:
        single = self._single(1)
        single.put(state)
        self._randomness = single.randomness

    def _single(self, batch_size: int) -> Single:
        return Single(self._built, (), batch_size, self._randomness)
