"""Cross entropy against probabilities, a loss for each row; trained."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, logits, targets):
        return -(targets * F.log_softmax(logits, -1)).sum(-1)


def get_inputs():
    return [torch.randn(24, 70), torch.softmax(torch.randn(24, 70), -1)]


def get_init_inputs():
    return []
