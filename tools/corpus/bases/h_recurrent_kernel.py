import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def sequence(x_ptr, w_in_ptr, w_ptr, b_in_ptr, b_ptr, out_ptr, steps, INPUTS: tl.constexpr, HIDDEN: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, INPUTS)
    j = tl.arange(0, HIDDEN)
    w_in = tl.load(w_in_ptr + j[:, None] * INPUTS + i[None, :])
    w = tl.load(w_ptr + j[:, None] * HIDDEN + j[None, :])
    bias = tl.load(b_in_ptr + j) + tl.load(b_ptr + j)
    state = tl.zeros((HIDDEN,), dtype=tl.float32)
    for step in range(steps):
        x = tl.load(x_ptr + (row * steps + step) * INPUTS + i)
        total = tl.sum(w_in * x[None, :], axis=1) + tl.sum(w * state[None, :], axis=1)
        state = libdevice.tanh(total + bias)
        tl.store(out_ptr + (row * steps + step) * HIDDEN + j, state)


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.rnn = nn.RNN(inputs, hidden, batch_first=True)

    def weights(self):
        rnn = self.rnn
        return rnn.weight_ih_l0, rnn.weight_hh_l0, rnn.bias_ih_l0, rnn.bias_hh_l0

    def forward(self, x):
        x = x.contiguous()
        batch, steps, inputs = x.shape
        w_in, w, b_in, b = self.weights()
        out = torch.empty((batch, steps, w.shape[0]), device=x.device, dtype=x.dtype)
        sequence[(batch,)](x, w_in, w, b_in, b, out, steps, INPUTS=inputs, HIDDEN=w.shape[0])
        return out
