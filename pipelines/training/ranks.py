"""Data parallelism: several processes hold the same model, each takes its share of every batch, and sums are made
over all of them. One process is the case of one rank. What is summed stands in `pretrain.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Ranks:
    """This process's place among those that train together."""

    rank: int = 0
    world_size: int = 1

    @property
    def first(self) -> bool:
        """True for the one process that reports and saves."""
        return self.rank == 0

    def share(self, items: Sequence[int]) -> Sequence[int]:
        """This rank's part of a batch: contiguous, sizes differ by at most one, empty where there are more ranks."""
        start = len(items) * self.rank // self.world_size
        end = len(items) * (self.rank + 1) // self.world_size
        return items[start:end]

    def sum(self, tensor: "torch.Tensor") -> "torch.Tensor":
        """The tensor summed over all ranks, in place. Every rank must call."""
        if self.world_size > 1:
            import torch.distributed as distributed

            distributed.all_reduce(tensor)
        return tensor

    def any(self, flag: bool, device: "torch.device") -> bool:
        """True if it holds on any rank. Every rank must call."""
        if self.world_size == 1:
            return flag
        import torch

        return bool(self.sum(torch.tensor([float(flag)], device=device)).item())

    def from_first(self, number: int, device: "torch.device") -> int:
        """The first rank's number, on every rank. Every rank must call."""
        if self.world_size == 1:
            return number
        import torch
        import torch.distributed as distributed

        told = torch.tensor([number], dtype=torch.int64, device=device)
        distributed.broadcast(told, src=0)
        return int(told.item())

    def wait(self) -> None:
        """Go on when all ranks have come here."""
        if self.world_size > 1:
            import torch.distributed as distributed

            distributed.barrier()

    def sum_gradients(self, parameters: Sequence["torch.nn.Parameter"]) -> None:
        """Sum the gradients over all ranks, in place; a rank that had no share of the batch adds zeros.

        One reduction per parameter, so the order of summation is the same in a resumed run as in an uninterrupted one.
        """
        if self.world_size == 1:
            return
        import torch
        import torch.distributed as distributed

        under_way = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            under_way.append(distributed.all_reduce(parameter.grad, async_op=True))
        for reduction in under_way:
            reduction.wait()


def join_ranks(rank: int, world_size: int, local_rank: int, *, on_gpu: bool) -> Ranks:
    """Join the other processes (nccl on GPUs, else gloo); the launcher's environment says where they meet.

    Who trains in a world of more than one ends with `torch.distributed.destroy_process_group()`.
    """
    if on_gpu or world_size > 1:
        import torch

        if on_gpu:
            torch.cuda.set_device(local_rank)
        if world_size > 1:
            torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    return Ranks(rank, world_size)
