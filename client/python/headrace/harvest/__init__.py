"""Activation rows for training: shuffled batches of fixed size, from many prompts
in flight.

    harvest = headrace.Harvest(client, prompts, hooks=["resid_post"], layers=[12], batch_rows=4096)
    for batch in harvest:
        train(batch.activations)                 # [4096, hidden_size] float32
        save(harvest.state.to_json())            # resumes after this batch

What is promised is said at Harvest.
"""
from headrace.harvest.batches import Batch, Harvest
from headrace.harvest.state import HarvestState

__all__ = ["Batch", "Harvest", "HarvestState"]
