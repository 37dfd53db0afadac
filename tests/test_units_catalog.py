"""Sizes and rates read well, and the catalogue says what the published sources say."""

from __future__ import annotations

import pytest

from course.catalog import (
    DEFAULT_MODEL,
    FAST_LINK,
    LINKS,
    MODELS,
    PAYLOAD_BYTES,
    PROMPT_TOKENS,
    SLOW_LINK,
)
from course.units import GB, GIB, MIB, bandwidth_text, bytes_text, ms_text


@pytest.mark.parametrize(
    ("size", "text"),
    [(512 * MIB, "512 MiB"), (1.5 * GIB, "1.5 GiB"), (32 * GIB, "32 GiB"), (100, "100 B")],
)
def test_sizes_read_in_powers_of_1024(size: float, text: str) -> None:
    assert bytes_text(size) == text


@pytest.mark.parametrize(
    ("bandwidth", "text"),
    [
        (5.24288 * GB, "5.24 GB/s"),
        (FAST_LINK.bandwidth, "34.4 GB/s"),
        (900 * GB, "900 GB/s"),
        (0.7 * GB, "700 MB/s"),
    ],
)
def test_bandwidths_read_in_powers_of_1000(bandwidth: float, text: str) -> None:
    assert bandwidth_text(bandwidth) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (15.625, "15.6 ms"),
        (250.0, "250 ms"),
        (204.8, "204.8 ms"),
        (0.04, "0.04 ms"),
        (2204.8, "2,205 ms"),
        (13_107.2, "13,107 ms"),
        (131_072, "131.1 s"),
        (1.8e19, "1.8e+16 s"),
    ],
)
def test_times_read_in_ms_and_long_ones_in_seconds(milliseconds: float, text: str) -> None:
    assert ms_text(milliseconds) == text


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("Llama-2-7B", 524_288),
        ("Llama-3-8B", 131_072),
        ("Llama-3-70B", 327_680),
        ("Qwen3-32B", 262_144),
        ("DeepSeek-V3", 70_272),
    ],
)
def test_each_model_has_its_known_kv_bytes_per_token(name: str, size: int) -> None:
    assert {model.name: model.kv_bytes_per_token for model in MODELS}[name] == size


def test_the_running_example_is_one_prompt_of_the_default_model() -> None:
    assert PROMPT_TOKENS * DEFAULT_MODEL.kv_bytes_per_token == PAYLOAD_BYTES == 512 * MIB


def test_links_ascend_and_hold_the_lessons_two() -> None:
    bandwidths = [link.bandwidth for link in LINKS]
    assert bandwidths == sorted(bandwidths)
    assert {SLOW_LINK, FAST_LINK} <= set(LINKS)
    assert (SLOW_LINK.bandwidth, FAST_LINK.bandwidth) == (2 * GIB, 32 * GIB)


def test_links_have_their_nominal_one_way_bandwidth() -> None:
    nominal = {link.name: link.bandwidth / GB for link in LINKS if "GiB" not in link.name}
    assert nominal == {
        "10 GbE": 1.25,
        "25 GbE": 3.125,
        "100 GbE": 12.5,
        "HDR 200": 25,
        "PCIe 4 x16": 31.5,
        "NDR 400": 50,
        "PCIe 5 x16": 63,
        "NVLink 3": 300,
        "NVLink 4": 450,
        "NVLink 5": 900,
    }


def test_every_entry_names_its_source() -> None:
    assert all(entry.source for entry in (*LINKS, *MODELS))
