// What follows from sizes alone: the least work, and what a rung counted at one size would be at another.
"use strict";

const SINGLE = 4;  // bytes of a float
// The least that any method does for one assignment of dense points.
function leastWork(size) {
  return { flop: 2 * size.n * size.d * size.k, bytes: SINGLE * (size.n * size.d + size.k * size.d + size.n) };
}

// Milliseconds by arithmetic and by bytes; GFLOP/s and GB/s are both 1e6 per ms.
function floorOf(work, ceilings) {
  const flop = ceilings.fp32_gflops ? work.flop / ceilings.fp32_gflops / 1e6 : null;
  const bytes = ceilings.read_gbs ? work.bytes / ceilings.read_gbs / 1e6 : null;
  return { flop, bytes, most: Math.max(flop ?? 0, bytes ?? 0) };
}

// Blocks per multiprocessor, and the share of its warps that they are, in percent. Registers are handed out in units of
// 256 for a warp; shared memory as it was counted, with what the driver takes of each block.
function occupancyOf(count) {
  const has = data.limits, warps = Math.ceil(count.block / 32);
  const perWarp = Math.ceil((count.metrics.registers || 1) * 32 / 256) * 256;
  const shared = Math.max(count.metrics.shared_bytes || 0, has.reserved_bytes || 1);
  const blocks = Math.max(0, Math.min(has.blocks, Math.floor(has.threads / (32 * warps)),
    Math.floor(Math.floor(has.registers / perWarp) / warps), Math.floor(has.shared_bytes / shared)));
  return { blocks, percent: 100 * blocks * warps * 32 / has.threads };
}

// What was counted at one size, at another: the grid grows with N; how often the points are read grows with K where
// they were read more than once, and is once where they fit the L2 cache.
function scaled(count, size, ceilings, processors) {
  const [n, d, k] = count.size;
  const occupancy = occupancyOf(count);
  const grid = Math.max(1, Math.ceil(count.grid * size.n / n));
  const round = Math.max(1, occupancy.blocks * processors);
  const points = SINGLE * size.n * size.d;
  const counted = count.bytes / (SINGLE * n * d);
  const passes = points < (ceilings.l2_bytes || 0) ? 1 : counted < 1.5 ? counted : Math.max(1, counted * size.k / k);
  return { occupancy: occupancy.percent, blocks: grid, waves: grid / round, passes, bytes: passes * points,
    filled: 100 * grid / (Math.ceil(grid / round) * round) };
}

// A formula of a lesson: a number, a name or [operation, ...]. Null where a name is unknown.
const OPERATIONS = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b,
  "ceil": Math.ceil, "floor": Math.floor, "min": Math.min, "max": Math.max, "negative": (a) => -a,
  "occupancy": (threads, registers, shared) =>
    occupancyOf({ block: threads, metrics: { registers, shared_bytes: shared } }).percent,
  "from_dram": (read, times) => (read <= (data.machines[0].ceilings.l2_bytes ?? 0) ? read : read * times) };
function valueOf(formula, names) {
  if (typeof formula === "number") return formula;
  if (typeof formula === "string") return names[formula] ?? null;
  if (!OPERATIONS[formula[0]]) return null;
  const values = formula.slice(1).map((part) => valueOf(part, names));
  return values.includes(null) ? null : OPERATIONS[formula[0]](...values);
}

// Two texts line by line: [line of the one or null, line of the other or null], equal lines in one pair. The longest
// common subsequence; a removed run and the added run after it stand side by side.
function lineUp(one, other) {
  let first = 0;
  while (first < one.length && first < other.length && one[first] === other[first]) first++;
  let last = 0;
  while (last < one.length - first && last < other.length - first &&
         one[one.length - 1 - last] === other[other.length - 1 - last]) last++;
  const a = one.slice(first, one.length - last), b = other.slice(first, other.length - last);
  const width = b.length + 1, length = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      length[i * width + j] = a[i] === b[j] ? 1 + length[(i + 1) * width + j + 1]
        : Math.max(length[(i + 1) * width + j], length[i * width + j + 1]);
    }
  }
  const pairs = one.slice(0, first).map((line) => [line, line]);
  let removed = [], added = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at++) {
      pairs.push([removed[at] ?? null, added[at] ?? null]);
    }
    removed = [], added = [];
  };
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      flush();
      pairs.push([a[i], b[j]]);
      i++, j++;
    } else if (j >= b.length || (i < a.length && length[(i + 1) * width + j] >= length[i * width + j + 1])) {
      removed.push(a[i++]);
    } else {
      added.push(b[j++]);
    }
  }
  flush();
  return pairs.concat(one.slice(one.length - last).map((line) => [line, line]));
}
