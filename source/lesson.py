# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Disaggregated prefill and decode
#
# *A lesson of the chapter on scaling serving. About 80 minutes, 19 points. You need Python, and to have heard of LLM inference.*
#
# Serving more people means choosing **where work is placed and what then has to move**: which kernel, how many
# devices, which split. A choice can leave the mathematics untouched and still change the memory traffic a lot, and a
# count of devices alone says little about how fast a system is. This lesson takes one such choice, splitting the two
# phases of inference over two machines, and works out what it brings and what it costs.
#
# | section | time | points |
# |---|---|---|
# | 1. The idea, and your prediction | 10 min | – |
# | 2. By hand: transfer times on two links | 15 min | 3 |
# | 3. In code: five functions | 30 min | 10 |
# | 4. Your functions at work | 15 min | 2 |
# | 5. Check your understanding | 10 min | 1 + 3 |
#
# **How it works.** Fill in the cells that say *Your code here* and run the check below each: it answers at once, with a
# hint. Checks can be run as often as you like and nothing is ever lost, so leave what resists and come back to it.
# Hidden tests, which try other values, decide the points after you submit. Stuck for long? Ask in the course's
# forum or in office hours, and bring the hint that you got.
#
# Begin with **Run → Run All Cells**: you will meet many lines that say *Not finished yet*, most of them on red. They are
# only waiting for you.

# %% deletable=false editable=false nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import math

from course import checks
from course.catalog import BUDGET_MS, DEFAULT_MODEL, LINKS, PAYLOAD_BYTES
from course.learner import Functions, finished
from course.summary import prediction_then_and_now, summary
from course.units import GB

# %% [markdown]
# ## Words you will meet
#
# | word | meaning |
# |---|---|
# | **prefill** | reading the whole prompt at once; it ends with the first new token |
# | **decode** | producing the answer, one token a step |
# | **KV cache**, KV state | the keys and values of all tokens so far, which every decode step reads again |
# | **TTFT** | time to first token: how long the new request waits for its first word |
# | **TPOT** | time per output token: the gap between words once the answer flows |
# | **GQA** | grouped-query attention: several query heads share one key and value head, so the KV cache is smaller |

# %% [markdown]
# ## 1. The idea
#
# *10 minutes*
#
# Prefill does a lot of arithmetic in one burst. Decode does little arithmetic in each step, but reads the
# weights and the KV cache from memory every time: it is steady, and bound by memory bandwidth. Put both on one machine and
# they get in each other's way: while a long prompt is prefilled, the requests that are decoding stand still.
#
# **Disaggregated serving** gives each phase machines of its own, tuned for it. Prompts no longer stall anybody's answer.
#
# ### Predict first
#
# Before you read on: **is separating the phases always beneficial, whatever the network's speed?** Write `"yes"` or `"no"`, and
# how sure you are, from 0 to 100. This is not graded; section 5 comes back to it.

# %% nbgrader={"grade": false, "grade_id": "prediction", "locked": false, "schema_version": 3, "solution": true, "task": false}
prediction = None  # "yes" or "no"
confidence = None  # 0 to 100
### BEGIN SOLUTION
prediction = "yes"
confidence = 60
### END SOLUTION

# %% [markdown]
# ### The price
#
# The decode machine cannot start without the request's KV state, and that lies on the prefill machine. In our running
# example it is **512 MiB**. It has to cross the network, and the crossing is added to the new request's TTFT. Over a link of
# 32 GiB/s it takes 15.6 ms. Over 2 GiB/s it takes 250 ms. So the split needs coordination and bandwidth, and on a
# slow link it is no free win.
#
# | | prefill and decode on one machine | prefill machine, KV transfer, decode machine |
# |---|---|---|
# | the new request waits for | prefill only | prefill + 15.63 ms of transfer |
# | running decodes are | stalled about 200 ms by the prefill | not stalled |

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-fast", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, timeline

show(timeline, prefill_ms=200, transfer_ms=15.63)

# %% [markdown]
# ## 2. By hand: transfer times on two links
#
# *15 minutes, 3 points*
#
# First you compute how long the KV state travels over two links. Section 3 then turns that into a small model which decides
# whether splitting pays.
#
# A transfer takes *bytes to move / bytes per second*. Mind the prefixes: 1 MiB is 1024² bytes and 1 GiB is 1024³, but a
# second has 1,000 ms. You may write a formula or a number; about one line each.
#
# *A word on rounding.* Python rounds a tie to the even neighbour: `round(0.125, 2)` is 0.12, and by hand you
# would write 0.13. Here you need not round at all: an answer with more decimals is welcome.
#
# **The fast link.** How long do 512 MiB take over 32 GiB/s? In ms, to 3 decimals.

# %% nbgrader={"grade": false, "grade_id": "fast-link", "locked": false, "schema_version": 3, "solution": true, "task": false}
fast_link_ms = None  # your answer in place of None, or below
### BEGIN SOLUTION
fast_link_ms = 512 * 1024**2 / (32 * 1024**3) * 1000
### END SOLUTION

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "fast-link-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# fast_link_ms: 512 MiB over 32 GiB/s, in ms (1 point)
checks.fast_link_ms(fast_link_ms)
### BEGIN HIDDEN TESTS
assert math.isclose(fast_link_ms, 15.625, rel_tol=0, abs_tol=0.0005000001), (
    "The time over the fast link is not right to three decimals."
)
### END HIDDEN TESTS

# %% [markdown]
# **The slow link.** The same 512 MiB over 2 GiB/s? In ms, to 1 decimal.

# %% nbgrader={"grade": false, "grade_id": "slow-link", "locked": false, "schema_version": 3, "solution": true, "task": false}
slow_link_ms = None  # your answer in place of None, or below
### BEGIN SOLUTION
slow_link_ms = 512 * 1024**2 / (2 * 1024**3) * 1000
### END SOLUTION

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "slow-link-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# slow_link_ms: 512 MiB over 2 GiB/s, in ms (1 point)
checks.slow_link_ms(slow_link_ms)
### BEGIN HIDDEN TESTS
assert math.isclose(slow_link_ms, 250, rel_tol=0, abs_tol=0.05000001), (
    "The time over the slow link is not right to one decimal."
)
### END HIDDEN TESTS

# %% [markdown]
# **Who gains?** Take the slow link. The split saves the running decodes a stall of 200 ms and adds the transfer, 250 ms, to the
# new request's TTFT. All else is equal: the same queue, the same prefill. Is the split a clear win for the **new**
# request's latency? `"yes"` or `"no"`.
#
# This check looks only at the form of your answer, since there are just two. The feedback explains.

# %% nbgrader={"grade": false, "grade_id": "clear-win", "locked": false, "schema_version": 3, "solution": true, "task": false}
clear_win = None  # "yes" or "no"
### BEGIN SOLUTION
clear_win = "no"
### END SOLUTION

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "clear-win-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# clear_win: is the split a clear win for the new request's latency? (1 point)
checks.clear_win(clear_win)
### BEGIN HIDDEN TESTS
assert clear_win.strip().lower() == "no", (
    "The 200 ms are saved for other people's requests. What does the new request itself get, and what does it pay?"
)
### END HIDDEN TESTS

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-slow", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, timeline

show(timeline, prefill_ms=200, transfer_ms=250)

# %% [markdown]
# ## 3. In code: five functions
#
# *30 minutes, 10 points*
#
# Five short functions make a model that decides. Each has a line that says what it returns, in which unit. Return plain
# values, and do not round. The checks below a function try a few values; the hidden tests try many more.
#
# ### 3.1 How long does the KV state travel?
#
# $$t_\text{transfer} = \frac{\text{KV bytes}}{\text{bandwidth}} \cdot 1000 \;\text{ms}$$
#
# A link that is down, or a bandwidth with the wrong sign, should not give a number that looks like an answer: raise
# `ValueError` when the bandwidth is zero or less. About 3 lines.

# %% nbgrader={"grade": false, "grade_id": "kv-transfer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kv_transfer_ms(kv_bytes, bandwidth_bytes_per_s):
    """Return the ms that kv_bytes (bytes) take at bandwidth_bytes_per_s (bytes/s).

    Raise ValueError when the bandwidth is zero or less.
    """
    ### BEGIN SOLUTION
    if bandwidth_bytes_per_s <= 0:
        raise ValueError("the bandwidth must be above zero")
    return kv_bytes / bandwidth_bytes_per_s * 1000
    ### END SOLUTION


# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "kv-transfer-value", "locked": true, "points": 1.5, "schema_version": 3, "solution": false, "task": false}
# kv_transfer_ms: bytes over bandwidth in ms; zero bytes give 0.0 (1.5 points)
checks.kv_transfer_value(kv_transfer_ms)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(41)
for _ in range(6):
    kv_bytes, bandwidth = rng.randrange(1, 2**40), rng.uniform(1e6, 1e12)
    assert math.isclose(kv_transfer_ms(kv_bytes, bandwidth), kv_bytes / bandwidth * 1000, rel_tol=1e-9), (
        "kv_transfer_ms is off for some payload and bandwidth. Bytes over bytes/s gives seconds; the result is in ms, not rounded."
    )
    assert kv_transfer_ms(0, bandwidth) == 0, "No bytes should take no time at any bandwidth."
### END HIDDEN TESTS

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "kv-transfer-error", "locked": true, "points": 0.5, "schema_version": 3, "solution": false, "task": false}
# kv_transfer_ms: ValueError for a bandwidth of zero or less (0.5 points)
checks.kv_transfer_error(kv_transfer_ms)
### BEGIN HIDDEN TESTS
for bandwidth in (0, 0.0, -1, -2.5e9):
    refused = False
    try:
        kv_transfer_ms(512 * 1024**2, bandwidth)
    except ValueError:
        refused = True
    assert refused, "A bandwidth of zero or less, fractions included, must raise ValueError."
### END HIDDEN TESTS

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-transfer-times", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, transfer_times

show(transfer_times, kv_transfer_ms)

# %% [markdown]
# The picture holds your function against real links, each at its nominal bandwidth in one direction. The time axis is
# logarithmic: from the slowest link to the fastest, the same 512 MiB take several hundred times less.
#
# ### 3.2 What does the new request wait for?
#
# It waits in the queue, then for its prefill, then for the transfer, then for its first decode step, one after the other. On one
# machine there is no transfer, and `transfer_ms` is 0. About 1 line. (In the picture below, the 40 ms of queue and the 30 ms of first
# decode step are made up.)

# %% nbgrader={"grade": false, "grade_id": "ttft", "locked": false, "schema_version": 3, "solution": true, "task": false}
def ttft_ms(queue_ms, prefill_ms, transfer_ms, first_decode_ms):
    """Return the new request's time to first token, in ms, from its four parts, in ms."""
    ### BEGIN SOLUTION
    return queue_ms + prefill_ms + transfer_ms + first_decode_ms
    ### END SOLUTION


# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "ttft-sum", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# ttft_ms: the sum of queue, prefill, transfer and first decode step (2 points)
checks.ttft_sum(ttft_ms)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(42)
for _ in range(6):
    queue, prefill, transfer, decode = (rng.uniform(0, 1000) for _ in range(4))
    assert math.isclose(ttft_ms(queue, prefill, transfer, decode), queue + prefill + transfer + decode, rel_tol=1e-9), (
        "ttft_ms is off for some parts. The request waits for all four, one after the other."
    )
    assert math.isclose(ttft_ms(queue, prefill, 0, decode), queue + prefill + decode, rel_tol=1e-9), (
        "ttft_ms is off on one machine, where the transfer is 0."
    )
### END HIDDEN TESTS

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-ttft", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, ttft_parts

show(ttft_parts, ttft_ms, {"one machine": 0, "split, fast link": 15.63, "split, slow link": 250})

# %% [markdown]
# ### 3.3 What do the others gain?
#
# If the prompt were prefilled on the machine that decodes, every running decode would stand still for the whole
# prefill. That is the stall which the split avoids: the number of prompt tokens times the cost of each. 2,000 tokens at 0.1 ms
# make 200 ms.
#
# Two arguments do not change the result: `decodes`, how many requests are decoding (at least one), and `decode_cost`, the ms of
# one of their steps. The function returns the stall of **each** running decode, which is the same for one or for sixty-four. They stand in the
# signature because a finer model needs them: one that weighs the stall by the people who feel it, or that counts the decode
# steps which fit into it. About 1 line.

# %% nbgrader={"grade": false, "grade_id": "stall-avoided", "locked": false, "schema_version": 3, "solution": true, "task": false}
def stall_avoided_ms(decodes, prompt_tokens, decode_cost=1.0, prefill_cost=0.1):
    """Return how much longer, in ms, each running decode would wait if the prompt were prefilled on its machine.

    decodes is a count, prompt_tokens a count, decode_cost in ms a step, prefill_cost in ms a token.
    """
    ### BEGIN SOLUTION
    return prompt_tokens * prefill_cost
    ### END SOLUTION


# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "stall-avoided-value", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# stall_avoided_ms: the prompt's prefill time; 2000 tokens give 200 ms (1 point)
checks.stall_value(stall_avoided_ms)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(43)
for _ in range(6):
    decodes, tokens = rng.randrange(1, 65), rng.randrange(1, 131_073)
    decode_cost, prefill_cost = rng.uniform(0.5, 40), rng.uniform(0.01, 2)
    assert math.isclose(
        stall_avoided_ms(decodes, tokens, decode_cost, prefill_cost), tokens * prefill_cost, rel_tol=1e-9
    ), "stall_avoided_ms is off for some prompt. Each prompt token holds up every running decode for its prefill cost."
### END HIDDEN TESTS

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "stall-avoided-arguments", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# stall_avoided_ms: defaults, keywords; decodes, decode_cost have no say (1 point)
checks.stall_arguments(stall_avoided_ms)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(44)
for _ in range(6):
    decodes, tokens, prefill_cost = rng.randrange(1, 65), rng.randrange(1, 131_073), rng.uniform(0.01, 2)
    assert math.isclose(stall_avoided_ms(decodes, tokens), tokens * 0.1, rel_tol=1e-9), (
        "stall_avoided_ms should use the costs of its signature when none are given."
    )
    assert math.isclose(
        stall_avoided_ms(prompt_tokens=tokens, decodes=1, prefill_cost=prefill_cost), tokens * prefill_cost, rel_tol=1e-9
    ), "stall_avoided_ms should take its arguments by the names of its signature."
    assert math.isclose(
        stall_avoided_ms(decodes, tokens, decode_cost=rng.uniform(0.5, 40)), tokens * 0.1, rel_tol=1e-9
    ), "The stall of each decode does not depend on how many there are, nor on what their own steps cost."
### END HIDDEN TESTS

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-stall", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, stall_growth

show(stall_growth, stall_avoided_ms, kv_transfer_ms)

# %% [markdown]
# ### 3.4 Is the split worthwhile?
#
# Call it worthwhile when **both** hold: the transfer adds **at most** `max_extra_ttft_ms` to the new request, and the stall that is
# avoided is **larger** than the transfer. Mind the two ties: a transfer that just uses up the budget is allowed; a
# stall that just equals the transfer is not worth the trouble.
#
# Notice that this weighs different people's time: the new request pays, the running ones gain. It judges the system, and no
# single request. With 250 ms of transfer against 200 ms of stall it says False for any budget. About 1 line; return True or False.

# %% nbgrader={"grade": false, "grade_id": "split-worthwhile", "locked": false, "schema_version": 3, "solution": true, "task": false}
def split_worthwhile(transfer_ms, stall_avoided, max_extra_ttft_ms):
    """Return True when the split is worthwhile, else False; all three arguments are in ms."""
    ### BEGIN SOLUTION
    return transfer_ms <= max_extra_ttft_ms and stall_avoided > transfer_ms
    ### END SOLUTION


# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "split-worthwhile-clear", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# split_worthwhile: True only where both conditions clearly hold (1 point)
checks.split_clear(split_worthwhile)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(45)
for _ in range(6):
    transfer = rng.uniform(5, 500)
    more, less = transfer * rng.uniform(1.1, 3), transfer * rng.uniform(0.1, 0.9)
    assert split_worthwhile(transfer, more, more), "Both conditions hold, so the split is worthwhile."
    assert not split_worthwhile(transfer, more, less), "The transfer breaks the TTFT budget, so the split is not worthwhile."
    assert not split_worthwhile(transfer, less, more), "The stall is smaller than the transfer, so the split is not worthwhile."
    assert not split_worthwhile(transfer, less, less), "Neither condition holds, so the split is not worthwhile."
assert split_worthwhile(40, 45, 60), "Budget and stall are each compared with the transfer, not with each other."
### END HIDDEN TESTS

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "split-worthwhile-ties", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# split_worthwhile: equal to the budget is allowed, equal to the stall not (1 point)
checks.split_ties(split_worthwhile)
### BEGIN HIDDEN TESTS
for transfer in (1, 15.5, 250):
    assert split_worthwhile(transfer, transfer + 1, transfer), "A transfer that just uses up the TTFT budget is allowed."
    assert not split_worthwhile(transfer, transfer, transfer + 1), "A stall that just equals the transfer is not worth a split."
    assert not split_worthwhile(transfer, transfer, transfer), "A stall that just equals the transfer is not worth a split."
### END HIDDEN TESTS

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-verdicts", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import show, verdict_regions

show(verdict_regions, split_worthwhile)

# %% [markdown]
# ### 3.5 How fast must the link be?
#
# Turn 3.1 round: given the KV bytes and a limit for the transfer, what is the smallest bandwidth that keeps it? (A limit that is zero
# or less deserves a `ValueError`, as in 3.1. It is good manners and not graded.) About 1 line.

# %% nbgrader={"grade": false, "grade_id": "break-even", "locked": false, "schema_version": 3, "solution": true, "task": false}
def break_even_bandwidth(kv_bytes, max_transfer_ms):
    """Return the smallest bandwidth, in bytes/s, that moves kv_bytes (bytes) in at most max_transfer_ms (ms)."""
    ### BEGIN SOLUTION
    if max_transfer_ms <= 0:
        raise ValueError("the limit must be above zero")
    return kv_bytes / (max_transfer_ms / 1000)
    ### END SOLUTION


# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "break-even-value", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# break_even_bandwidth: smallest bandwidth that keeps the limit, bytes/s (2 points)
checks.break_even_value(break_even_bandwidth)
### BEGIN HIDDEN TESTS
import random

rng = random.Random(46)
for _ in range(6):
    kv_bytes, limit = rng.choice([rng.randrange(1, 10_000), rng.randrange(1, 2**40)]), rng.uniform(0.5, 5000)
    assert math.isclose(break_even_bandwidth(kv_bytes, limit), kv_bytes * 1000 / limit, rel_tol=1e-9), (
        "break_even_bandwidth is off for some payload and limit. The limit is in ms, the result in bytes per second, not rounded."
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Your functions at work
#
# *15 minutes, 2 points*
#
# ### One report from five functions
#
# The cell below is complete. It calls all five of your functions for every link of the catalogue, with 512 MiB of KV state, a prompt of
# 2,048 tokens and a TTFT budget of 50 ms, and prints a report. (At 0.1 ms a token, 2,048 tokens make a stall of 204.8 ms; so far we
# rounded it to 200.) Your report must be the same as the reference report, character by
# character. That text is not shown here: read yours and ask whether each line makes sense. (A function that is wrong above
# will most likely be wrong here, too. Nothing else costs you these points.)

# %% tags=["nbval-check-output", "raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "report", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
# report: all five functions together, for every link of the catalogue (2 points)
transfer_time, ttft, stall_avoided, worthwhile, break_even = finished(
    kv_transfer_ms, ttft_ms, stall_avoided_ms, split_worthwhile, break_even_bandwidth
)
stall = stall_avoided(decodes=8, prompt_tokens=2048)
lines = [f"{'link':<12}{'transfer, ms':>14}{'TTFT, ms':>12}  verdict"]
for link in LINKS:
    transfer = transfer_time(PAYLOAD_BYTES, link.bandwidth)
    first_token = ttft(5, stall, transfer, 20)
    verdict = "split" if worthwhile(transfer, stall, BUDGET_MS) else "stay together"
    lines.append(f"{link.name:<12}{transfer:>14.1f}{first_token:>12.1f}  {verdict}")
lines.append(f"The budget needs {break_even(PAYLOAD_BYTES, BUDGET_MS) / GB:.2f} GB/s,")
lines.append(f"beating the stall needs {break_even(PAYLOAD_BYTES, stall) / GB:.2f} GB/s.")
report = "\n".join(lines)
print(report)
### BEGIN HIDDEN TESTS
assert report == """\
link          transfer, ms    TTFT, ms  verdict
10 GbE               429.5       659.3  stay together
2 GiB/s              250.0       479.8  stay together
25 GbE               171.8       401.6  stay together
100 GbE               42.9       272.7  split
HDR 200               21.5       251.3  split
PCIe 4 x16            17.0       246.8  split
32 GiB/s              15.6       245.4  split
NDR 400               10.7       240.5  split
PCIe 5 x16             8.5       238.3  split
NVLink 3               1.8       231.6  split
NVLink 4               1.2       231.0  split
NVLink 5               0.6       230.4  split
The budget needs 10.74 GB/s,
beating the stall needs 2.62 GB/s.""", "The report differs from the reference. Which of the five functions does the line that surprises you use?"
### END HIDDEN TESTS

# %% [markdown]
# ### The break-even map
#
# For each prompt length, how fast must the link be? The map draws two lines with your functions: below the first, the transfer breaks
# the TTFT budget; below the second, it takes longer than the stall that it avoids.
#
# Look at the second line. **It is flat**, and that is worth a thought: a longer prompt means more bytes to move, but also a longer stall to
# avoid, and both grow in step. So for beating the stall the prompt's length drops out, and what remains is
#
# $$\text{bandwidth} > \frac{\text{KV bytes per token}}{\text{prefill time per token}}$$
#
# At 0.1 ms a token that is 5.24 GB/s for Llama-2-7B, 3.28 for Llama-3-70B, 2.62 for Qwen3-32B, 1.31 for Llama-3-8B and only 0.70 for
# DeepSeek-V3, whose attention keeps a compressed KV cache. The budget line does climb: a long prompt's KV state is large, and the new request's
# patience does not grow with it.

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "picture-map", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.figures import break_even_map, show

show(break_even_map, Functions(globals()), DEFAULT_MODEL, BUDGET_MS)

# %% [markdown]
# ### The explorer
#
# Now play. The explorer opens on the running example and asks your functions anew at every change. (Tab moves between the
# controls, the arrow keys move a slider.) Some things to find out:
#
# - With the 2 GiB/s link, is there any prompt length at which the split is worthwhile?
# - Real software sustains less than a link's nominal bandwidth. Take 25 GbE and set the budget to 500 ms, so that only the
#   stall counts: how much of the bandwidth may go missing?
# - Which model would you rather move over 10 GbE, and why?

# %% tags=["explore", "nbval-ignore-output"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "explorer", "locked": true, "schema_version": 3, "solution": false, "task": false}
from course.explorer import explorer

explorer(globals())

# %% [markdown]
# ## 5. Check your understanding
#
# *10 minutes, 1 + 3 points*
#
# The question from the beginning again: **is separating the phases always beneficial, whatever the network's speed?** `"yes"` or
# `"no"`. As before, the check looks only at the form.

# %% nbgrader={"grade": false, "grade_id": "always-beneficial", "locked": false, "schema_version": 3, "solution": true, "task": false}
always_beneficial = None  # "yes" or "no"
### BEGIN SOLUTION
always_beneficial = "no"
### END SOLUTION

# %% tags=["raises-exception"] deletable=false editable=false nbgrader={"grade": true, "grade_id": "always-beneficial-check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
# always_beneficial: is separating the phases always beneficial? (1 point)
checks.always_beneficial(always_beneficial)
### BEGIN HIDDEN TESTS
assert always_beneficial.strip().lower() == "no", (
    "Look at section 1 again, and at your report: what happens to the new request on the slowest links?"
)
### END HIDDEN TESTS

# %% tags=["explore", "raises-exception"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "then-and-now", "locked": true, "schema_version": 3, "solution": false, "task": false}
prediction_then_and_now(prediction, confidence, always_beneficial)

# %% [markdown]
# **In your own words** (3 points, marked by a person). *When does it pay to put prefill and decode on separate machines?* Five sentences are
# plenty. One point each for
#
# 1. comparing the transfer time with the link's speed: how the one follows from the other,
# 2. saying who gains and who pays,
# 3. stating a condition, with a number, under which you would split or would not.
#
# Double-click the line below to write.

# %% [markdown] nbgrader={"grade": true, "grade_id": "when-to-split", "locked": false, "points": 3, "schema_version": 3, "solution": true, "task": false}
# ### BEGIN SOLUTION
# The KV state has to cross the network, and its time is its bytes over the link's bandwidth: 512 MiB take 15.6 ms at 32 GiB/s, but 250 ms at
# 2 GiB/s. The running decodes gain, for no prefill stalls them any more (about 200 ms for 2,000 tokens); the new
# request pays, since the transfer is added to its TTFT. I would split when the transfer fits into the TTFT budget and is shorter than the
# stall: with a 50 ms budget, 512 MiB need about 10.7 GB/s, so 100 GbE will do and 25 GbE will not.
#
# *Mark scheme.* One point: transfer time is tied to the link's speed (bytes over bandwidth, or two links compared). One point: running
# requests gain, the new request pays. One point: a condition with a number (a bandwidth, a budget or a stall against a transfer).
# ### END SOLUTION

# %% [markdown]
# ## Where you stand
#
# The table is made from the present values: run the cell again after a change. "✓" beside a yes-or-no question means that it is answered.

# %% tags=["explore"] deletable=false editable=false nbgrader={"grade": false, "grade_id": "summary", "locked": true, "schema_version": 3, "solution": false, "task": false}
summary(globals())

# %% [markdown]
# **What is left for you to do**
#
# 1. Press **Validate** in the notebook's toolbar. It saves and runs the whole notebook from top to bottom in a fresh session and
#    names the cells that fail. So it also finds what only works because of a cell that you have since deleted.
# 2. *Submit*: in the menu **Nbgrader → Assignment List**, find `disaggregation` under *Downloaded assignments* and press **Submit**. You may
#    submit again as often as you like; the last one counts.
# 3. *Deadline and late policy* stand on the course's page. A late hand-in is still accepted, and is marked as late.
# 4. *Feedback* appears in the same Assignment List, once it is released.
#
# Curious for more? `beyond.ipynb`, beside this notebook, says where the numbers come from and what the simple model leaves out.
