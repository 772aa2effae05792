"""Run by test_parcel_of_frameworks.py, in an interpreter of its own: how PyTorch's values travel."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from tenfold.work import parcel

LARGE = parcel.BESIDE


def back(value: Any) -> Any:
    return parcel.unpack(bytearray(parcel.pack(value).to_bytes()))


def case_shapes_and_strides() -> None:
    whole = torch.arange(300 * 300, dtype=torch.float64).reshape(300, 300)
    for tensor in (whole, whole[::2], whole[:, 5], whole.T, whole[:0], whole[3, 4], whole[:1].expand(7, 300)):
        again = back(tensor)
        assert again.shape == tensor.shape, tensor.shape
        assert torch.equal(again, tensor), tensor.shape
        again += 1  # it is its own


def case_common_dtypes() -> None:
    for name in ("float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128").split():
        for count in (3, LARGE):
            tensor = torch.ones(count).to(getattr(torch, name))
            again = back(tensor)
            assert again.dtype is tensor.dtype, name
            assert torch.equal(again, tensor), name


def case_unsigned_dtypes() -> None:
    """PyTorch's own pickles of these cannot be read back."""
    for name in ("uint16", "uint32", "uint64"):
        tensor = torch.zeros(8, dtype=getattr(torch, name))
        again = back(tensor)
        assert again.dtype is tensor.dtype, name
        assert again.shape == tensor.shape, name


def case_requires_grad() -> None:
    for flag in (True, False):
        tensor = torch.ones(LARGE).requires_grad_(flag)
        again = back(tensor)
        assert again.requires_grad is flag
        assert again.is_leaf
        if flag:
            again.sum().backward()
            assert again.grad is not None
            assert tensor.grad is None


def case_parameters() -> None:
    for flag in (True, False):
        parameter = torch.nn.Parameter(torch.ones(300, 300), requires_grad=flag)
        again = back(parameter)
        assert type(again) is torch.nn.Parameter
        assert again.requires_grad is flag
        assert torch.equal(again, parameter)


def case_attributes_of_tensors() -> None:
    """Libraries mark parameters with attributes of their own; PyTorch's pickle keeps them."""
    tensor, parameter = torch.ones(3), torch.nn.Parameter(torch.ones(3))
    tensor.label = parameter.no_weight_decay = "marked"  # type: ignore[attr-defined]
    assert getattr(back(tensor), "label", None) == "marked"
    assert getattr(back(parameter), "no_weight_decay", None) == "marked"


def case_modules() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.BatchNorm1d(200), torch.nn.Linear(200, 1))
    model.eval()
    x = torch.randn(4, 200)
    again = back(model)
    assert torch.equal(again(x), model(x))
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert all(p.requires_grad for p in again.parameters())


def case_tied_weights_stay_tied() -> None:
    first, second = torch.nn.Linear(300, 300), torch.nn.Linear(300, 300)
    second.weight = first.weight
    again = back([first, second])
    assert again[0].weight is again[1].weight


def case_a_model_and_its_parameters_stay_together() -> None:
    """What an optimizer holds: it must move the weights of the model that came with it."""
    model = torch.nn.Linear(300, 300)
    again, held = back((model, list(model.parameters())))
    assert [id(parameter) for parameter in again.parameters()] == [id(parameter) for parameter in held]


def case_other_layouts() -> None:
    sparse = torch.eye(5).to_sparse()
    assert torch.equal(back(sparse).to_dense(), sparse.to_dense())
    conjugate = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert torch.equal(back(conjugate), conjugate)
    negative = torch.tensor([1 + 2j]).conj().imag
    assert torch.equal(back(negative), negative)


def case_within_a_graph() -> None:
    tensor = torch.ones(3, requires_grad=True) * 2
    assert torch.equal(back(tensor), tensor)


def case_packing_copies_nothing() -> None:
    tensor = torch.zeros(LARGE, dtype=torch.float64)
    packed = parcel.pack({"weights": tensor})
    assert len(packed.body) < 2000
    tensor[5] = 9
    assert np.frombuffer(packed.buffers[0])[5] == 9


def case_closed_over_tensors_travel_beside_the_pickle() -> None:
    tensor = torch.arange(LARGE, dtype=torch.float64)
    packed = parcel.pack_function(lambda i: tensor[i].item())
    assert len(packed.body) < 5000, len(packed.body)
    assert parcel.unpack(packed.to_bytes())(7) == 7.0


def case_unpacking_from_shared_memory_copies_nothing() -> None:
    handle = parcel.shared(parcel.pack([torch.full((LARGE,), 3.0), torch.nn.Parameter(torch.ones(LARGE))]))
    memory = parcel.attach(handle)
    base = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    for writable in (True, False):
        tensor, parameter = parcel.unpack(memory, writable=writable)
        for found in (tensor, parameter):
            assert base <= found.data_ptr() < base + len(memory)
        tensor[0] = 4.0  # private pages: nobody else sees it
    other = parcel.unpack(parcel.attach(handle))[0]
    os.close(handle)
    assert other[0] == 3.0
