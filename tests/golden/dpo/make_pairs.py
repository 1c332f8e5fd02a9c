#!/usr/bin/env python3
"""Makes pairs.safetensors: the DPO loss of Rafailov et al. 2023, equation 7, with the label smoothing
of cDPO (Mitchell 2023), in decimals of 60 digits from the definition: sigma(z) = 1/(1 + exp(-z)),
logarithms taken of it. Gradients are central differences of that loss by each token's cross-entropy
with h = 1e-20, whose error is below 1e-38. Needs the Python standard library alone."""

import json
import os
import random
import struct
from decimal import Decimal as D, getcontext

getcontext().prec = 60
H = D("1e-20")


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def pair_loss(policy, reference, mask, beta, eps):
    """policy, reference, mask: [chosen tokens, rejected tokens]; returns loss, rewards, logps."""
    logp = [-sum((x for x, m in zip(p, ms) if m), D(0)) for p, ms in zip(policy, mask)]
    ref = [-sum((x for x, m in zip(p, ms) if m), D(0)) for p, ms in zip(reference, mask)]
    rewards = [beta * (a - b) for a, b in zip(logp, ref)]
    z = rewards[0] - rewards[1]
    loss = -(1 - eps) * sigmoid(z).ln() - eps * sigmoid(-z).ln()
    return loss, rewards, logp


def slope(policy, reference, mask, beta, eps, side, token):
    losses = []
    for h in (H, -H):
        moved = [list(p) for p in policy]
        moved[side][token] += h
        losses.append(pair_loss(moved, reference, mask, beta, eps)[0])
    return (losses[0] - losses[1]) / (2 * H)


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def draw_case(rng, length, pairs, beta, eps, spread):
    """Lists by pair of two sequences each; masked tokens cost 0, as the head gives them."""
    case = {"length": length, "pairs": pairs, "beta": beta, "label_smoothing": eps}
    policy, reference, mask = [], [], []
    for pair in range(pairs):
        masks = []
        for _ in range(2):
            first = rng.randrange(0, length)
            last = rng.randrange(first + 1, length + 1)
            masks.append([int(first <= t < last) for t in range(length)])
        if pair == 2:  # padding of a batch
            masks = [[0] * length, [0] * length]
        draw = lambda: [[fp32(rng.uniform(0, 6)) * m for m in ms] for ms in masks]
        policy.append(draw())
        reference.append(draw())
        if pair == 1:
            reference[-1] = [list(x) for x in policy[-1]]  # z = 0
        if pair == 3:  # far apart: one of the exponentials is tiny
            policy[-1] = [[fp32(spread) * m for m in masks[0]], [x for x in policy[-1][1]]]
        mask.append(masks)
    return case, policy, reference, mask


def evaluate(case, policy, reference, mask):
    beta, eps = D(case["beta"]), D(case["label_smoothing"])
    sums = [D(0)] * 7
    weights = []
    for p, r, m in zip(policy, reference, mask):
        p, r = [[[D(x) for x in s] for s in both] for both in (p, r)]
        if not any(m[0] + m[1]):
            weights += [D(0)] * (2 * case["length"])
            continue
        loss, rewards, logp = pair_loss(p, r, m, beta, eps)
        accurate = D(int(rewards[0] > rewards[1]))
        for i, x in enumerate([D(1), loss, *logp, *rewards, accurate]):
            sums[i] += x
        for side in range(2):
            for t in range(case["length"]):
                weights.append(slope(p, r, m, beta, eps, side, t) if m[side][t] else D(0))
    return sums, weights


def flat(lists):
    return [x for pair in lists for sequence in pair for x in sequence]


def main():
    rng = random.Random(20261126)
    cases, tensors = {}, {}
    for name, args in {"plain": (5, 6, 0.125, 0.0, 9.0), "smoothed": (7, 5, 0.5, 0.25, 60.0),
                       "one_token": (1, 4, 2.0, 0.0, 300.0)}.items():
        case, policy, reference, mask = draw_case(rng, *args)
        sums, weights = evaluate(case, policy, reference, mask)
        cases[name] = case
        for key, values in (("losses", policy), ("reference", reference), ("mask", mask)):
            tensors[f"{name}.{key}"] = ("F32", flat(values))
        tensors[f"{name}.sums"] = ("F64", sums)
        tensors[f"{name}.weights"] = ("F64", weights)
    header, body = {}, b""
    for name, (dtype, values) in tensors.items():
        data = struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'd'}", *map(float, values))
        header[name] = {"dtype": dtype, "shape": [len(values)],
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    described = {"losses": "cross-entropy of each token by the policy, 0 where masked",
                 "reference": "the same by the reference", "mask": "1: a token of the completion",
                 "sums": "pairs, loss, logp chosen, logp rejected, reward chosen, reward rejected, "
                         "accurate", "weights": "d loss of its pair / d cross-entropy of the token"}
    header["__metadata__"] = {
        "schema": "narrowgauge-golden-1",
        "note": "DPO losses and gradients of pairs by the tokens' cross-entropies.",
        "tensors": json.dumps({name: {"desc": described[name.split(".")[1]],
                                      "oracle": "make_pairs.py, decimals of 60 digits",
                                      "dtype": dtype, "shape": [len(values)]}
                               for name, (dtype, values) in tensors.items()}),
        "cases": json.dumps(cases)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pairs.safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


if __name__ == "__main__":
    main()
