"""Loops over a forest of AVL trees in flat arrays, one tree per group.

Node n has the children child[2n] (smaller values) and child[2n + 1]; 0 is no node, with height, weight and count 0 and
children 0. `weight` (tuples) and `best` (the highest count) are sums over a node and all below it, of
the counts in `counted`; what has changed since is for `sum_paths` or `sum_all` to bring in.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled
from anabranch.windows.index.base import FREE, take_node

_DEPTH = 64
"""Longer than any path: an AVL tree of 2³¹ nodes is at most 45 high."""


@compiled
def _descend(codes, i, groups, roots, key, child, height):  # type: ignore[no-untyped-def]
    """The nodes of the smallest values ≥ codes[i], …, codes[i + 3], 0 where there is none.

    Four lookups side by side, each to the bottom of its tree whether found on the way or not: a loop
    of foreseeable length without branches keeps the processor busy while it waits for memory. Below
    a leaf is node 0, its own child; its key is less than any code, so it is never what is looked for.
    """
    one = np.uint32(1)
    code0, code1, code2, code3 = codes[i], codes[i + 1], codes[i + 2], codes[i + 3]
    node0 = node1 = node2 = node3 = np.uint32(roots[0])
    if len(groups):
        node0, node1 = np.uint32(roots[groups[i]]), np.uint32(roots[groups[i + 1]])
        node2, node3 = np.uint32(roots[groups[i + 2]]), np.uint32(roots[groups[i + 3]])
    found0 = found1 = found2 = found3 = np.uint32(0)
    for _ in range(max(height[node0], height[node1], height[node2], height[node3])):
        right0, right1 = np.uint32(key[node0] < code0), np.uint32(key[node1] < code1)
        right2, right3 = np.uint32(key[node2] < code2), np.uint32(key[node3] < code3)
        found0 = found0 if right0 else node0
        found1 = found1 if right1 else node1
        found2 = found2 if right2 else node2
        found3 = found3 if right3 else node3
        node0 = child[np.uint32(np.uint32(node0 << one) | right0)]
        node1 = child[np.uint32(np.uint32(node1 << one) | right1)]
        node2 = child[np.uint32(np.uint32(node2 << one) | right2)]
        node3 = child[np.uint32(np.uint32(node3 << one) | right3)]
    return found0, found1, found2, found3


@compiled
def _walk(code, root, key, child):  # type: ignore[no-untyped-def]
    """The node of a value, 0 if it is not there."""
    node = root
    while node != 0 and key[node] != code:
        node = child[2 * node + (key[node] < code)]
    return node


@compiled
def find(codes, groups, roots, key, child, height):  # type: ignore[no-untyped-def]
    nodes = np.empty(len(codes), np.int32)
    fours = len(codes) // 4 * 4
    for i in range(0, fours, 4):
        nodes[i], nodes[i + 1], nodes[i + 2], nodes[i + 3] = _descend(codes, i, groups, roots, key, child, height)
    for i in range(len(codes)):
        # The smallest code of all is equal to that of node 0, and is not found side by side with others.
        if i >= fours or nodes[i] == 0:
            nodes[i] = _walk(codes[i], roots[groups[i]] if len(groups) else roots[0], key, child)
        if nodes[i] == 0 or key[nodes[i]] != codes[i]:
            nodes[i] = -1
    return nodes


@compiled
def locate(  # type: ignore[no-untyped-def]
    codes, groups, start, nodes, roots, key, count, group, link, tally, child, height, counted, weight, best
):
    path = np.empty(_DEPTH, np.int32)
    i = start
    while i < len(codes):
        size = 1
        if i + 4 <= len(codes):
            size = 4
            nodes[i], nodes[i + 1], nodes[i + 2], nodes[i + 3] = _descend(codes, i, groups, roots, key, child, height)
        else:
            nodes[i] = 0
        for j in range(i, i + size):
            code = codes[j]
            if nodes[j] != 0 and key[nodes[j]] == code:
                continue
            owner = groups[j] if len(groups) else np.int32(0)
            node = _walk(code, roots[owner], key, child)
            if node == 0:
                node = take_node(code, owner, key, count, group, link, tally)
                if node == 0:
                    return j
                child[2 * node] = child[2 * node + 1] = 0
                height[node] = 1
                counted[node] = weight[node] = best[node] = 0
                _insert(node, owner, path, roots, key, child, height, counted, weight, best)
            nodes[j] = node
        i += size
    return len(codes)


@compiled
def _insert(new, owner, path, roots, key, child, height, counted, weight, best):  # type: ignore[no-untyped-def]
    depth = 0
    node = roots[owner]
    while node != 0:
        path[depth] = node
        depth += 1
        node = child[2 * node + (key[node] < key[new])]
    if depth == 0:
        roots[owner] = new
        return
    parent = path[depth - 1]
    child[2 * parent + (key[parent] < key[new])] = new
    while depth > 0:
        depth -= 1
        node = path[depth]
        left, right = height[child[2 * node]], height[child[2 * node + 1]]
        if abs(right - left) <= 1:
            tall = max(left, right) + 1
            if tall == height[node]:
                return
            height[node] = tall
            continue
        top = _rotate(node, 1 if right > left else 0, child, height, counted, weight, best)
        if depth == 0:
            roots[owner] = top
        else:
            parent = path[depth - 1]
            child[2 * parent + (child[2 * parent + 1] == node)] = top
        return


@compiled
def _rotate(node, side, child, height, counted, weight, best):  # type: ignore[no-untyped-def]
    """Lift the child on the high side, or its inner child if that is what is high; give the new top."""
    other = 1 - side
    top = child[2 * node + side]
    inner = child[2 * top + other]
    if height[inner] > height[child[2 * top + side]]:
        child[2 * top + other] = child[2 * inner + side]
        child[2 * inner + side] = top
        _renew(top, child, height, counted, weight, best)
        top = inner
    child[2 * node + side] = child[2 * top + other]
    child[2 * top + other] = node
    _renew(node, child, height, counted, weight, best)
    _renew(top, child, height, counted, weight, best)
    return top


@compiled
def _renew(node, child, height, counted, weight, best):  # type: ignore[no-untyped-def]
    left, right = child[2 * node], child[2 * node + 1]
    height[node] = max(height[left], height[right]) + 1
    weight[node] = weight[left] + counted[node] + weight[right]
    best[node] = max(best[left], counted[node], best[right])


@compiled
def touch(nodes, is_touched):  # type: ignore[no-untyped-def]
    touched = np.empty(len(nodes), np.int32)
    size = 0
    for i in range(len(nodes)):
        if not is_touched[nodes[i]]:
            is_touched[nodes[i]] = True
            touched[size] = nodes[i]
            size += 1
    return touched[:size].copy()


@compiled
def sum_paths(touched, is_touched, roots, group, key, count, child, counted, weight, best):  # type: ignore[no-untyped-def]
    path = np.empty(_DEPTH, np.int32)
    for i in range(len(touched)):
        wanted = touched[i]
        is_touched[wanted] = False
        counted[wanted] = count[wanted]
        depth = 0
        node = roots[group[wanted]]
        while node != wanted:
            path[depth] = node
            depth += 1
            node = child[2 * node + (key[node] < key[wanted])]
        path[depth] = node
        while depth >= 0:
            node = path[depth]
            left, right = child[2 * node], child[2 * node + 1]
            weight[node] = weight[left] + counted[node] + weight[right]
            best[node] = max(best[left], counted[node], best[right])
            depth -= 1


@compiled
def sum_all(live, roots, group, key, count, child, counted, weight, best):  # type: ignore[no-untyped-def]
    order = np.empty(live, np.int32)
    size = 0
    for owner in range(len(roots)):
        if roots[owner] != 0:
            order[size] = roots[owner]
            size += 1
    # Parents come before their children, so that backwards all below a node is done before it.
    done = 0
    while done < size:
        node = order[done]
        done += 1
        for side in range(2):
            below = child[2 * node + side]
            if below != 0:
                order[size] = below
                size += 1
    for i in range(size - 1, -1, -1):
        node = order[i]
        left, right = child[2 * node], child[2 * node + 1]
        counted[node] = count[node]
        weight[node] = weight[left] + count[node] + weight[right]
        best[node] = max(best[left], count[node], best[right])


@compiled
def select(groups, ranks, key, count, child, weight, roots):  # type: ignore[no-untyped-def]
    codes = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        node, rank = roots[groups[i]], ranks[i]
        while node != 0:
            left = child[2 * node]
            if rank < weight[left]:
                node = left
                continue
            rank -= weight[left]
            if rank < count[node]:
                break
            rank -= count[node]
            node = child[2 * node + 1]
        codes[i] = key[node]
    return codes


@compiled
def mode(groups, count, child, best, roots):  # type: ignore[no-untyped-def]
    nodes = np.empty(len(groups), np.int32)
    for i in range(len(groups)):
        node = roots[groups[i]]
        highest = best[node]
        while node != 0:
            if best[child[2 * node]] == highest:
                node = child[2 * node]
            elif count[node] == highest:
                break
            else:
                node = child[2 * node + 1]
        nodes[i] = node
    return nodes


@compiled
def in_order(groups, size, roots, count, child):  # type: ignore[no-untyped-def]
    nodes = np.empty(size, np.int32)
    bounds = np.zeros(len(groups) + 1, np.int64)
    path = np.empty(_DEPTH, np.int32)
    done = 0
    for i in range(len(groups)):
        depth = 0
        node = roots[groups[i]]
        while node != 0 or depth > 0:
            while node != 0:
                path[depth] = node
                depth += 1
                node = child[2 * node]
            depth -= 1
            node = path[depth]
            if count[node] != 0:
                nodes[done] = node
                done += 1
            node = child[2 * node + 1]
        bounds[i + 1] = done
    return nodes, bounds


@compiled
def rebuild(live, roots, count, group, link, tally, child, height):  # type: ignore[no-untyped-def]
    """Free the nodes of count 0 and build each tree that had one anew, as low as can be."""
    kept = np.empty(live, np.int32)
    lows, highs, places = np.empty(_DEPTH, np.int32), np.empty(_DEPTH, np.int32), np.empty(_DEPTH, np.int64)
    path = np.empty(_DEPTH, np.int32)
    for owner in range(len(roots)):
        size = depth = gone = 0
        node = roots[owner]
        while node != 0 or depth > 0:
            while node != 0:
                path[depth] = node
                depth += 1
                node = child[2 * node]
            depth -= 1
            node = path[depth]
            after = child[2 * node + 1]
            if count[node] != 0:
                kept[size] = node
                size += 1
            else:
                group[node] = -1
                link[node] = tally[FREE]
                tally[FREE] = node
                gone += 1
            node = after
        if gone == 0:
            continue
        # kept[low:high] becomes the subtree at a place in `child`; place -1 is the root.
        lows[0], highs[0], places[0] = 0, size, -1
        depth = 1
        while depth > 0:
            depth -= 1
            low, high, place = lows[depth], highs[depth], places[depth]
            middle = (low + high) // 2
            node = kept[middle] if low < high else 0
            if place < 0:
                roots[owner] = node
            else:
                child[place] = node
            if low == high:
                continue
            # The left side has half of the rest, the right side no more: the height is the length of the size in bits.
            tall, rest = 0, high - low
            while rest > 0:
                tall += 1
                rest >>= 1
            height[node] = tall
            lows[depth], highs[depth], places[depth] = low, middle, 2 * node
            depth += 1
            lows[depth], highs[depth], places[depth] = middle + 1, high, 2 * node + 1
            depth += 1
