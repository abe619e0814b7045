import torch
import triton
import triton.language as tl


@triton.jit
def alarms(signal, ringing, steps, sensors, begins, ends, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    batch, part = tl.program_id(0), tl.program_id(1)
    sensor = tl.arange(0, BLOCK)
    inside = sensor < sensors
    until = tl.minimum((part + 1) * STEPS, steps)
    start = 0
    on = tl.zeros([BLOCK], tl.int1)
    for at in range(start, until):
        place = (batch * steps + at) * sensors + sensor
        now = tl.load(signal + place, mask=inside, other=0.0)
        on = (now > begins) | (on & (now > ends))
        tl.store(ringing + place, on, mask=inside & (at >= part * STEPS))


class ModelNew(torch.nn.Module):
    def __init__(self, begins: float, ends: float) -> None:
        super().__init__()
        self.begins, self.ends = begins, ends

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        signal = signal.contiguous()
        batches, steps, sensors = signal.shape
        ringing = torch.empty_like(signal, dtype=torch.bool)
        grid = (batches, triton.cdiv(steps, 16))
        block = triton.next_power_of_2(sensors)
        alarms[grid](
            signal, ringing, steps, sensors, self.begins, self.ends, STEPS=16, BLOCK=block
        )
        return ringing
