"""The links and models that the lesson compares, and the facts of its running example.

Every figure is a published one with its source beside it; nothing here is derived from what the
learner is asked to compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from course.units import GB, GIB, MIB

BYTES_PER_VALUE: Final = 2
"""The KV cache is kept at 16 bit."""


@dataclass(frozen=True)
class Link:
    """A way for KV state to travel between two machines.

    Attributes:
        name: what people call it.
        bandwidth: nominal, in one direction, in bytes per second.
        source: who says so.
    """

    name: str
    bandwidth: float
    source: str


@dataclass(frozen=True)
class GroupedHeads:
    """Keys and values of each KV head: multi-head attention (MHA) and grouped-query (GQA)."""

    kv_heads: int
    head_dim: int

    @property
    def values_per_layer(self) -> int:
        """Values that one token leaves in one layer's cache: a key and a value for each head."""
        return 2 * self.kv_heads * self.head_dim


@dataclass(frozen=True)
class LatentVector:
    """One compressed vector and the rotary part of the keys: multi-head latent attention (MLA)."""

    kv_lora_rank: int
    rope_dim: int

    @property
    def values_per_layer(self) -> int:
        """Values that one token leaves in one layer's cache."""
        return self.kv_lora_rank + self.rope_dim


@dataclass(frozen=True)
class Model:
    """A language model, as far as the size of its KV cache goes.

    Attributes:
        name: what people call it.
        layers: how many layers keep a cache.
        cache: what each layer keeps for a token.
        source: where these shapes stand.
    """

    name: str
    layers: int
    cache: GroupedHeads | LatentVector
    source: str

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache that one token takes at 16 bit."""
        return self.layers * self.cache.values_per_layer * BYTES_PER_VALUE


SLOW_LINK: Final = Link("2 GiB/s", 2 * GIB, "the lesson's slow link")
FAST_LINK: Final = Link("32 GiB/s", 32 * GIB, "the lesson's fast link")

LINKS: Final = (
    Link("10 GbE", 1.25 * GB, "IEEE 802.3ae: 10 Gbit/s"),
    SLOW_LINK,
    Link("25 GbE", 3.125 * GB, "IEEE 802.3by: 25 Gbit/s"),
    Link("100 GbE", 12.5 * GB, "IEEE 802.3ba: 100 Gbit/s"),
    Link("HDR 200", 25 * GB, "InfiniBand HDR, 4 lanes: 200 Gbit/s"),
    Link("PCIe 4 x16", 31.5 * GB, "PCI-SIG, PCI Express 4.0: 16 GT/s, 16 lanes, 128b/130b"),
    FAST_LINK,
    Link("NDR 400", 50 * GB, "InfiniBand NDR, 4 lanes: 400 Gbit/s"),
    Link("PCIe 5 x16", 63 * GB, "PCI-SIG, PCI Express 5.0: 32 GT/s, 16 lanes, 128b/130b"),
    Link("NVLink 3", 300 * GB, "NVIDIA A100: 600 GB/s, which counts both directions"),
    Link("NVLink 4", 450 * GB, "NVIDIA H100: 900 GB/s, which counts both directions"),
    Link("NVLink 5", 900 * GB, "NVIDIA B200: 1,800 GB/s, which counts both directions"),
)
"""Every link, from the slowest to the fastest."""

QWEN3_32B: Final = Model(
    "Qwen3-32B",
    64,
    GroupedHeads(kv_heads=8, head_dim=128),
    "Qwen3-32B config.json: 64 layers, 8 KV heads, head dim 128",
)

MODELS: Final = (
    Model(
        "Llama-2-7B",
        32,
        GroupedHeads(kv_heads=32, head_dim=128),
        "Llama-2-7B config.json: 32 layers, 32 KV heads, head dim 128",
    ),
    Model(
        "Llama-3-8B",
        32,
        GroupedHeads(kv_heads=8, head_dim=128),
        "Llama-3-8B config.json: 32 layers, 8 KV heads, head dim 128",
    ),
    Model(
        "Llama-3-70B",
        80,
        GroupedHeads(kv_heads=8, head_dim=128),
        "Llama-3-70B config.json: 80 layers, 8 KV heads, head dim 128",
    ),
    QWEN3_32B,
    Model(
        "DeepSeek-V3",
        61,
        LatentVector(kv_lora_rank=512, rope_dim=64),
        "DeepSeek-V3 config.json: 61 layers, latent rank 512, rotary dim 64",
    ),
)

DEFAULT_MODEL: Final = QWEN3_32B
"""The model of the running example."""

PROMPT_TOKENS: Final = 2048
"""Tokens in the running example's prompt."""

PAYLOAD_BYTES: Final = 512 * MIB
"""KV state of the running example's request."""

PREFILL_MS_PER_TOKEN: Final = 0.1
"""Prefill time of one prompt token, ms; DistServe's fit for OPT-13B on an A100 is close to it."""

STALL_MS: Final = 200.0
"""The stall that the lesson speaks of, ms: the running example's prefill, rounded."""

BUDGET_MS: Final = 50.0
"""The most that a transfer may add to the new request's TTFT in the lesson's examples, ms."""

RUNNING_DECODES: Final = 8
"""Requests that are decoding when the new one arrives, in pictures that need a number."""
