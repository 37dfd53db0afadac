"""The lesson's five functions as a correct solution writes them; for tests only."""

from __future__ import annotations


def kv_transfer_ms(kv_bytes: float, bandwidth_bytes_per_s: float) -> float:
    """Return the time in ms that a KV cache takes over a link."""
    if bandwidth_bytes_per_s <= 0:
        raise ValueError("the bandwidth must be positive")
    return kv_bytes / bandwidth_bytes_per_s * 1000


def ttft_ms(
    queue_ms: float, prefill_ms: float, transfer_ms: float, first_decode_ms: float
) -> float:
    """Return the time to first token in ms."""
    return queue_ms + prefill_ms + transfer_ms + first_decode_ms


def stall_avoided_ms(
    decodes: int, prompt_tokens: int, decode_cost: float = 1.0, prefill_cost: float = 0.1
) -> float:
    """Return how much longer, in ms, running decodes would wait for a prefill beside them."""
    return prompt_tokens * prefill_cost


def split_worthwhile(transfer_ms: float, stall_avoided: float, max_extra_ttft_ms: float) -> bool:
    """Return whether the transfer fits the budget and costs less than the stall it avoids."""
    return transfer_ms <= max_extra_ttft_ms and stall_avoided > transfer_ms


def break_even_bandwidth(kv_bytes: float, max_transfer_ms: float) -> float:
    """Return the smallest bandwidth, bytes/s, that keeps the transfer within the limit."""
    if max_transfer_ms <= 0:
        raise ValueError("the limit must be positive")
    return kv_bytes / (max_transfer_ms / 1000)
