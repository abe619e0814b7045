"""A gain that stands in settings of many kinds, of each of which the emitted module sees a change."""

import enum
from decimal import Decimal
from types import MappingProxyType

import torch
import torch.nn as nn

RATE = Decimal("0.5")
TABLE = MappingProxyType({"gain": 2.0})


class Mode(enum.Enum):
    SOFT = 1


class Options:
    def __getitem__(self, name):
        return TABLE[name]


class Numbers(dict):
    pass


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode, self.options, self.numbers = Mode.SOFT, Options(), Numbers(gain=2.0)
        self.numbers.times = 1.0

    def forward(self, x):
        if self.mode is Mode.SOFT:
            x = x * float(RATE)
        return x * self.options["gain"] * self.numbers["gain"] * self.numbers.times


def get_inputs():
    return [torch.randn(9, 130)]


def get_init_inputs():
    return []
