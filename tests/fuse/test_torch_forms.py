"""Calls in another form give what the calls themselves give, whatever they are asked for."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy
import pytest
import torch
import torch_cases as cases
from torch.func import vmap
from torch.nn import functional

from tenfold.fuse.columns import columns
from tenfold.fuse.torch_forms import Forms
from tenfold.fuse.torch_stack import Fused
from tenfold.fuse.torch_step import batch

pytestmark = pytest.mark.usefixtures("one_thread")
MODELS, ROWS, WIDTH, CLASSES = 3, 7, 4, 5
WEIGHTS = torch.linspace(0.5, 2.0, CLASSES)
LABELS = torch.arange(MODELS * ROWS).reshape(MODELS, ROWS) % CLASSES


def random(*shape: int) -> Any:
    return torch.randn(MODELS, *shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)


def both(function: Any, *given: Any) -> list[list[Any]]:
    """What calls for many models give, and the gradient of what was given first: as they are, and in the other form."""
    found = []
    for forms in (contextlib.nullcontext(), Forms()):
        first = given[0].clone().requires_grad_()
        with forms:
            out = vmap(function)(first, *given[1:])
        found.append([out.detach(), *torch.autograd.grad(out.square().sum(), [first])])
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reduction": "sum"},
        {"reduction": "none"},
        {"weight": WEIGHTS.double()},
        {"weight": WEIGHTS.double(), "reduction": "none"},
        {"ignore_index": 2},
        {"label_smoothing": 0.2},
        {"weight": WEIGHTS.double(), "ignore_index": 1},
    ],
    ids=str,
)
def test_cross_entropy(settings: dict[str, Any]) -> None:
    plain, quick = both(functools.partial(functional.cross_entropy, **settings), random(ROWS, CLASSES), LABELS)
    assert [one.shape for one in plain] == [one.shape for one in quick]
    assert all(map(torch.allclose, plain, quick))


def test_cross_entropy_of_shares_and_of_places() -> None:
    """Which have no other form."""
    shares = random(ROWS, CLASSES).softmax(2)
    assert all(map(torch.equal, *both(functional.cross_entropy, random(ROWS, CLASSES), shares)))
    places = torch.arange(MODELS * 2 * ROWS).reshape(MODELS, 2, ROWS) % CLASSES
    assert all(map(torch.equal, *both(functional.cross_entropy, random(2, CLASSES, ROWS), places)))


@pytest.mark.parametrize("bias", [None, (WIDTH,), (1,)])
@pytest.mark.parametrize("shape", [(ROWS, CLASSES), (2, ROWS, CLASSES), (CLASSES,)])
def test_dense_layers(shape: tuple[int, ...], bias: tuple[int, ...] | None) -> None:
    x, weight = random(*shape), random(WIDTH, CLASSES)
    given = [weight, x] if bias is None else [weight, x, random(*bias)]

    def layer(weight: Any, x: Any, bias: Any = None) -> Any:
        return functional.linear(x, weight, bias=bias)

    plain, quick = both(layer, *given)
    assert [one.shape for one in plain] == [one.shape for one in quick]
    assert all(map(torch.allclose, plain, quick))


@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embeddings(padding: int | None) -> None:
    """Each by itself is what to compare with: vmap leaves the gradient of a padding out in the first model only."""
    weight = random(CLASSES, WIDTH)
    settings = {"padding_idx": padding}
    with Forms():
        found = vmap(lambda weight, words: functional.embedding(words, weight, **settings))(
            given := weight.clone().requires_grad_(), LABELS
        )
        (gradient,) = torch.autograd.grad(found.square().sum(), [given])
    for own, words, out, expected in zip(weight, LABELS, found, gradient, strict=True):
        one = functional.embedding(words, own.requires_grad_(), **settings)
        assert torch.equal(out, one)
        assert torch.equal(expected, *torch.autograd.grad(one.square().sum(), [own]))


@pytest.mark.parametrize("word", [CLASSES, -1])
def test_words_without_a_row_are_those_of_no_other_model(word: int) -> None:
    words = LABELS.clone()
    words[MODELS // 2, 0] = word
    with Forms(), pytest.raises(IndexError):
        vmap(functional.embedding)(words, random(CLASSES, WIDTH))


def test_gradients_come_in_the_layout_of_the_weights() -> None:
    """Where they do not, the optimizer copies all of them in every step."""
    fit = cases.fit_of("dense")
    _, _, models = cases.taken(fit, [{"seed": 1}, {"seed": 2}])
    stack = Fused(models, (), fit.batch_size, 2, best=False)
    data = stack.blocks.tensors(columns((cases.rows(6), cases.classes()), "data"))
    places = torch.from_numpy(numpy.stack([numpy.arange(fit.batch_size)] * 2))
    assert all(gradient.is_contiguous() for gradient in stack.gradients(slice(0, 2), batch(data, places)))
