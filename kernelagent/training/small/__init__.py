"""A training run small enough for two cores: everything but the model's size is as it is for a large one.

`language` the sentences and the Triton candidates they stand for; `policy` the transformer that writes
them; `judged` verdicts kept on disk; `learning` the loop of TRLOO, PR and PRS; `trial` what is compared.
"""
