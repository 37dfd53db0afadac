# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# ## Chapter reference: scaling serving
#
# These pages close every lesson of the chapter, so part of what they cover may belong to a
# different lesson. Come back to them whenever you need a bound, a symbol or a reminder.

# %% [markdown]
# ### Math and notation
#
# | what you ask | bound or estimate |
# |---|---|
# | **Weight traffic:** how long does one decode step take? | `step time ≥ weight_bytes / sustained_bandwidth` |
# | **KV transfer:** how much time does moving the state add? | `added time ≈ bytes_to_move / network_bandwidth` |
#
# With bytes and bytes per second, both come out in seconds. The first bound holds only if those
# bytes really cross the bottleneck in every step. The second counts the payload alone, before
# protocol and synchronisation overhead. Batching and caching change the bytes per produced token:
# a batch of decodes shares one scan of the weights, and a cache saves work at the price of memory
# traffic.

# %% [markdown]
# ### Worked example
#
# The machine is fictional; the arithmetic is not.
#
# - **Decode.** Reading 14 GB of dense weights over a sustained 700 GB/s takes at least
#   14/700 = 0.02 s. At one scan of the weights a step, that is a ceiling of 50 steps a second. Real
#   runs stay below it, because they have other traffic and other work.
# - **KV transfer.** Moving 512 MiB over 32 GiB/s takes at least 1/64 s. This is a payload-only
#   bound: it leaves out everything that a protocol adds.

# %% [markdown]
# ### Reference code
#
# The same example in code. It needs only the standard library and no network, and it says so at
# once if a result is not the one above.

# %%
import math

GB = 1000**3
MIB, GIB = 1024**2, 1024**3

seconds_per_weight_scan = 14 * GB / (700 * GB)
steps_per_second_ceiling = 1 / seconds_per_weight_scan
seconds_for_kv_payload = 512 * MIB / (32 * GIB)

assert math.isclose(seconds_per_weight_scan, 0.02)
assert math.isclose(steps_per_second_ceiling, 50)
assert math.isclose(seconds_for_kv_payload, 1 / 64)

print("It holds: 0.02 s a scan, 50 steps/s at most, 1/64 s for the KV payload.")

# %% [markdown]
# ### Common mistakes
#
# - **Taking peak bandwidth for what an application gets.** A data sheet gives the peak; only
#   a measurement gives the bandwidth that your program sustains.
# - **Thinking that exact attention means one memory layout.** Exact attention can be computed with
#   different memory layouts: the result is the same, and the traffic can differ a lot.
# - **Taking more GPUs for more speed.** More GPUs can add communication bottlenecks: ask what has to
#   move between them, and over which link.
