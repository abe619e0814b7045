"""The training side of Dr. Kernel (2602.05885) as pure functions: numbers in, numbers out.

`turn_rewards` what a turn is worth and whether it is learnt from; `advantages` TRLOO and GRPO;
`mismatch` which trajectories trainer and rollout engine agree on; `policy_loss` the clipped loss.
Nothing here imports torch: a trainer applies the same equations to its own tensors.
"""
