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
# # Beyond the lesson
#
# **Nothing here is graded.** You have finished the lesson and want to know how its small model
# compares with real systems? Then this is for you. It takes about 20 minutes. Run the three code
# cells as you meet them; papers are named where they are used and listed at the end.

# %% [markdown]
# ## Who emits the first token?
#
# The last step of a prefill already yields a token, so either machine can be the one that sends the
# first token to the user. The choice decides which latency pays for the transfer.
#
# | first token from | the transfer delays | found in |
# |---|---|---|
# | the decode machine | the **first** token (TTFT) | our lesson, vLLM's example proxy, Dynamo |
# | the prefill machine | the **second** token | DistServe, Splitwise (section 6.1) |
#
# So before you compare two published TTFTs, ask which machine emitted the token.

# %% [markdown]
# ## Are the lesson's numbers realistic?
#
# Yes. The lesson's 0.1 ms a prompt token is close to
# DistServe's fit for OPT-13B on an A100: 0.102 ms a token, plus 18 ms fixed. And 512 MiB is not
# just a round number; at 16 bit it is the KV state of exactly
#
# | tokens | of |
# |---|---|
# | 1,024 | Llama-2-7B |
# | 2,048 | Qwen3-32B |
# | 4,096 | Llama-3-8B |
#
# The model with 32 billion parameters keeps half as much per token as the one with 7 billion. The
# next section says why.

# %% [markdown]
# ## KV bytes per token
#
# How much state a token leaves behind depends on the attention, not on the number of parameters.
#
# | attention | KV bytes per token |
# |---|---|
# | multi-head (MHA), grouped-query (GQA) | `2 · layers · kv_heads · head_dim · bytes` |
# | multi-head latent (MLA) | `layers · (kv_lora_rank + rope_dim) · bytes` |
#
# The 2 stands for one key and one value; `bytes` is 2 at 16 bit. In MHA every query head has its own
# key and value head. GQA lets a group of query heads share one, and MLA stores one compressed
# vector for all of them, beside a small part that carries the position.

# %%
from course.catalog import DEFAULT_MODEL, LINKS, MODELS, PAYLOAD_BYTES

print(f"{'model':<14}{'KV bytes per token':>20}   source")
for model in MODELS:
    print(f"{model.name:<14}{model.kv_bytes_per_token:>20,}   {model.source}")

# %% [markdown]
# Llama-2-7B uses MHA, the other Llamas and Qwen3-32B use GQA, DeepSeek-V3 uses MLA with 512 + 64
# values in each of its 61 layers. DeepSeek-V3, by far the largest of the five, keeps the least per
# token: less than a seventh of what Llama-2-7B keeps. It needs that much less of a network, too.

# %% [markdown]
# ## Links, and what they carry
#
# A slow link costs more than latency: it also limits throughput. If every request moves 512 MiB,
# a link of 2 GiB/s carries at most 4 requests a second and one of 32 GiB/s at most 64, however
# many GPUs stand at either end. The table gives nominal bandwidths in one direction.

# %%
print(f"{'link':<24}{'GB/s':>8}{'requests/s':>12}")
for link in LINKS:
    requests_per_s = link.bandwidth / PAYLOAD_BYTES
    print(f"{link.name:<24}{link.bandwidth / 1e9:>8.4g}{requests_per_s:>12.1f}")

# %% [markdown]
# Two things to keep in mind when you read a data sheet:
#
# - **Directions.** NVLink 3, 4 and 5 are usually quoted at 600, 900 and 1800 GB/s. Those figures
#   add up both directions; a KV transfer goes one way, so it sees half.
# - **Nominal is not sustained.** Mooncake's transfer engine reports 87 GB/s on four 200 Gb/s
#   network cards (100 GB/s nominal) and 190 GB/s on eight 400 Gb/s cards (400 GB/s nominal).

# %% [markdown]
# ## Sending while the prefill still runs
#
# The lesson's transfer starts when the prefill has ended. It need not: each layer's KV state is
# complete as soon as that layer has run, and can travel while the next one computes. With `L` equal
# layers, a whole transfer of `t` and a prefill of `prefill` (both in ms), the time that is left
# *after* the prefill is about
#
# `exposed time ≈ max(t / L, t − prefill · (L − 1) / L)`
#
# The first term says that the last layer can leave only when the prefill is over. The second says
# that a slow link starts sending after the first layer and is still busy at the end.

# %%
layers = DEFAULT_MODEL.layers  # Qwen3-32B: 64
prefill_ms = 204.8  # 2,048 prompt tokens at 0.1 ms each

for transfer_ms in (15.6, 250.0):
    last_layer = transfer_ms / layers
    slow_link = transfer_ms - prefill_ms * (layers - 1) / layers
    exposed_ms = max(last_layer, slow_link)
    print(f"whole transfer {transfer_ms:>5.1f} ms: about {exposed_ms:.2f} ms exposed")

# %% [markdown]
# On the fast link the transfer all but vanishes. On the slow one 48.4 ms of the 250 ms remain, so a
# verdict can turn without a new network. Overlap cannot mend throughput, though: the same bytes
# still have to cross the link. The formula is also an idealisation, in which many small messages
# cost nothing extra. In practice they do, and Splitwise sends short prompts in one piece.

# %% [markdown]
# ## When splitting is not best
#
# - **Little load or short prompts:** there are few running decodes to protect, or hardly a stall to
#   spare them.
# - **Few GPUs:** two pools leave little room to balance them.
# - **Offline work:** nobody waits for the next token, so only total throughput counts. vLLM's
#   documentation on disaggregated prefilling says plainly that splitting does not raise
#   throughput.
#
# The rival on one machine is **chunked prefill** (Sarathi-Serve): cut the prompt into chunks and run
# each one together with the decodes, so that no single step is long. DistServe itself lists cases
# (section 7): chunked prefill may suit offline work better, and a simpler system without splitting
# may suit a handful of GPUs.

# %% [markdown]
# ## Look at the tail
#
# TPOT is an average, and averages hide stalls. If a request produces 200 tokens and one gap between
# them is 200 ms too long, its TPOT rises by only about 1 ms, yet its reader sees the text freeze.
# To see what splitting buys, look at the tail of the gaps between tokens: the 99th percentile, say,
# or the longest gap.

# %% [markdown]
# ## Even papers mix units
#
# If you slipped on GB and GiB in part 1, you are in good company. DistServe (section 3.3)
# gives the KV state of 512 tokens of OPT-66B as "1.13 GB". It is 1.125 **GiB**, which is 1.208 GB.
# Ten such requests a second then need 96.6 Gb/s, not the 90 Gbps that the paper derives.
#
# Try it: OPT-66B has 64 layers and plain MHA, and in each layer the keys of a token are 9,216
# numbers of 2 bytes. Can you find the 1.125 GiB?

# %% [markdown]
# ## Sources
#
# - **DistServe:** Zhong and others, "DistServe: Disaggregating Prefill and Decoding for
#   Goodput-optimized Large Language Model Serving", OSDI 2024, arXiv 2401.09670.
# - **Splitwise:** Patel and others, "Splitwise: Efficient Generative LLM Inference Using Phase
#   Splitting", ISCA 2024, arXiv 2311.18677. Its sections have Roman numerals: 6.1 is VI-A.
# - **Sarathi-Serve:** Agrawal and others, "Taming Throughput-Latency Tradeoff in LLM Inference with
#   Sarathi-Serve", OSDI 2024, arXiv 2403.02310.
# - **Mooncake:** Qin and others, "Mooncake: A KVCache-centric Disaggregated Architecture for LLM
#   Serving", arXiv 2407.00079. The two bandwidths come from the project's documentation of its
#   transfer engine.
# - **vLLM:** the documentation page "Disaggregated Prefilling", and the example proxy beside it.
# - **Dynamo:** NVIDIA's documentation, "Disaggregated Serving" and "Architecture Flow".
# - **Models and links:** each entry of `course.catalog` names its own source.
