// The choice, its place in the address, and what the page says of it.
"use strict";

const at = (id) => document.getElementById(id);
const THEMES = ["light", "dark"];
const SLIDERS = { n: [1000, 1e8], d: [1, 4096], k: [2, 1e6] };  // log scales
const STEPS = 400;  // of a slider
let data, rungs, charts, state = {}, applied = "";

// ------------------------------------------------------------------------------------------------------------ in words

function number(value) {
  if (value === null || value === undefined) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-3) return value.toExponential(2);
  for (const [scale, name] of [[1e12, " trillion"], [1e9, " billion"], [1e6, " million"]]) {
    if (size >= scale) return `${number(value / scale)}${name}`;
  }
  if (size >= 100) return Math.round(value).toLocaleString("en-US");
  return value.toPrecision(3);
}

const ms = (value) => `${number(value)} ms`;
const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [0, "bytes"]];
function bytes(value) {
  if (value === null || value === undefined) return "\u2013";
  const [scale, name] = BYTES.find(([least]) => value >= least);
  return `${number(value / (scale || 1))} ${name}`;
}
const times = (value) => `${number(value)}\u00d7`;
const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);
const whole = (value) => value.toLocaleString("en-US");
const size = (w) => `${whole(w.n)} \u00d7 ${whole(w.d)}, K = ${whole(w.k)}`;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// A line may end after an underscore of a name.
const breakable = (name) => name.replaceAll("_", "_\u200b");

function table(head, rows) {
  const made = element("table"), first = made.createTHead().insertRow();
  head.forEach((text, column) => {
    const cell = element("th", breakable(text), column ? "number" : "");
    cell.scope = "col";
    first.append(cell);
  });
  const body = made.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((text, column) => line.append(element("td", column ? text : breakable(text), column ? "number" : "")));
  }
  return made;
}

// ------------------------------------------------------------------------------------------------------- what is there

const machine = () => data.machines[state.machine] ?? data.machines[0];
const timeOf = (id, scope = state.scope) => machine().times[id]?.[state.workload]?.[scope];
const rungOf = (id) => rungs.get(id);

function chainOf(id) {
  const found = [];
  for (let rung = rungOf(id); rung && !found.includes(rung.id); rung = rungOf(rung.base)) found.unshift(rung.id);
  return found;
}

// The counters of a rung: of this workload where it was profiled there, else of the one it was profiled on.
function countOf(id, workload = state.workload) {
  const of = data.counts[id] ?? {};
  for (const scope of [state.scope, "assign", "iteration", "solve", "update", "initialise"]) {
    if (of[workload]?.[scope]) return { ...of[workload][scope], workload, scope };
  }
  return null;
}

// Counters of both that compare: the same workload and scope; of this workload, or another on which both were counted.
function countsOf(rung, base) {
  const places = Object.keys(data.counts[rung] ?? {});
  for (const workload of [state.workload, ...places]) {
    const mine = countOf(rung, workload);
    const other = mine && data.counts[base]?.[workload]?.[mine.scope];
    if (mine && (other || !base)) return { mine, other: other ? { ...other, workload, scope: mine.scope } : null };
  }
  const mine = countOf(rung) ?? (places.length ? countOf(rung, places[0]) : null);
  const others = Object.keys(data.counts[base] ?? {});
  return { mine, other: countOf(base) ?? (others.length ? countOf(base, others[0]) : null) };
}

// From sessions in turns: on this workload, else on one of the same size and kind (kmcuda_5 is kmcuda, cut short).
function gainOf(rung, base) {
  const { n, d, k } = data.workloads[state.workload];
  const found = data.gains.filter((gain) => gain.rung === rung && gain.base === base && gain.scope === state.scope);
  return found.find((gain) => gain.workload === state.workload) ??
    found.find((gain) => gain.workload.startsWith(`${state.workload}_`) && String(gain.size) === String([n, d, k]));
}

// With as many digits as tell its ends apart.
function ends(low, high) {
  const digits = [3, 4].find((count) => low.toPrecision(count) !== high.toPrecision(count)) ?? 5;
  return `${low.toPrecision(digits)} to ${high.toPrecision(digits)}`;
}

// ----------------------------------------------------------------------------------------------------------- the state

function usual() {
  const rung = rungOf(state.rung);
  return { base: rung.base, scope: rung.shows || "iteration", workload: workloadFor(rung), machine: 0 };
}

// Where the rung stands beside its base: the first workload with times of both.
function workloadFor(rung) {
  const names = data.machines[0].workloads, scope = rung.shows || "iteration";
  const timed = (id, name) => data.machines[0].times[id]?.[name]?.[scope];
  return names.find((name) => timed(rung.id, name) && (!rung.base || timed(rung.base, name))) ??
    names.find((name) => data.machines[0].times[rung.id]?.[name]) ?? names[0];
}

function read() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const [workload] = data.machines[0].workloads;
  const first = data.rungs.find((rung) => rung.base && rung.counter && rung.shows === "assign" &&
    data.counts[rung.id]?.[workload] && data.counts[rung.base]?.[workload]) ?? data.rungs[0];
  state = { rung: rungs.has(asked.get("rung")) ? asked.get("rung") : first.id };
  const standard = usual();
  const known = { base: ["", ...rungs.keys()], scope: Object.keys(data.scopes), workload: Object.keys(data.workloads) };
  for (const [name, values] of Object.entries(known)) {
    state[name] = values.includes(asked.get(name)) ? asked.get(name) : standard[name];
  }
  state.machine = Math.max(0, data.machines.findIndex((_, place) => String(place) === asked.get("machine")));
  const w = data.workloads[state.workload];
  for (const [name, [low, high]] of Object.entries(SLIDERS)) {
    const value = Number(asked.get(name));
    state[name] = asked.has(name) && value >= low && value <= high ? Math.round(value) : w[name];
  }
  state.theme = THEMES.includes(asked.get("theme")) ? asked.get("theme") : "";
}

// The address names what differs from the usual choice of the rung.
function write() {
  const standard = usual(), kept = new URLSearchParams({ rung: state.rung });
  for (const name of ["base", "workload", "scope", "machine"]) {
    if (state[name] !== standard[name]) kept.set(name, state[name]);
  }
  for (const name of Object.keys(SLIDERS)) {
    if (state[name] !== data.workloads[state.workload][name]) kept.set(name, state[name]);
  }
  if (state.theme) kept.set("theme", state.theme);
  if (`#${kept}` !== location.hash) history.replaceState(null, "", `#${kept}`);
}

function choose(change) {
  const rung = change.rung && change.rung !== state.rung;
  const workload = change.workload && change.workload !== state.workload;
  Object.assign(state, change);
  if (rung) {
    const standard = usual();
    const kept = machine().times[state.rung]?.[state.workload];
    Object.assign(state, standard, { machine: state.machine, workload: kept ? state.workload : standard.workload });
  }
  if (rung || workload) {
    const w = data.workloads[state.workload];
    Object.assign(state, { n: w.n, d: w.d, k: w.k });
  }
  write();
  show();
}

// ----------------------------------------------------------------------------------------------------------- the lists

function options(list, entries, chosen) {
  list.replaceChildren(...entries.map(([value, text]) => new Option(text, value, false, value === chosen)));
  list.value = chosen;
}

function fillRungs() {
  const list = at("rung"), chapters = new Map();
  for (const rung of data.rungs) {
    if (!chapters.has(rung.chapter)) chapters.set(rung.chapter, []);
    chapters.get(rung.chapter).push(rung);
  }
  for (const [chapter, members] of chapters) {
    const group = element("optgroup");
    group.label = chapter;
    group.append(...members.map((rung) => new Option(rung.id, rung.id)));
    list.append(group);
  }
}

function fillLists() {
  at("rung").value = state.rung;
  const chain = chainOf(state.rung).slice(0, -1).reverse();
  const others = data.rungs.map((rung) => rung.id).filter((id) => id !== state.rung && !chain.includes(id));
  const base = at("base");
  base.replaceChildren(new Option("nothing", ""));
  for (const [label, ids] of [["below it", chain], ["others", others]]) {
    const group = element("optgroup");
    group.label = label;
    group.append(...ids.map((id) => new Option(id, id)));
    base.append(group);
  }
  base.value = state.base;
  const has = machine().times[state.rung] ?? {};
  options(at("workload"), Object.entries(data.workloads).map(([name, w]) =>
    [name, `${name}: ${size(w)}${has[name] ? "" : " (no time of this rung)"}`]), state.workload);
  options(at("scope"), Object.entries(data.scopes), state.scope);
  options(at("machine"), data.machines.map((m, place) => [String(place), m.name]), String(state.machine));
  at("previous").disabled = !rungOf(state.rung).base;
  at("next").disabled = !following();
}

// The first rung that is based on this one.
const following = () => data.rungs.find((rung) => rung.base === state.rung);

// ------------------------------------------------------------------------------------------------------------ sections

function showStep(rung, base) {
  at("chapter").textContent = `${rung.chapter} \u00b7 ${rung.file}`;
  const gain = base && gainOf(rung.id, base.id), mine = timeOf(rung.id), other = base && timeOf(base.id);
  const what = data.scopes[state.scope];
  let message = `${rung.id}: ${rung.idea}`;
  const ratio = gain ? gain.value : mine && other ? other[0] / mine[0] : null;
  if (ratio) {
    const verdict = gain ? gain.verdict : ratio >= 1.02 ? "FASTER" : ratio <= 0.98 ? "SLOWER" : "SAME";
    message = { FASTER: `${rung.id} makes ${what} ${times(ratio)} as fast as ${base?.id}`,
      SLOWER: `${rung.id} makes ${what} take ${times(1 / ratio)} the time of ${base?.id}`,
      SAME: `${rung.id} leaves ${what} as fast as ${base?.id} has it`,
      UNSURE: `No difference between ${rung.id} and ${base?.id} is shown in ${what}` }[verdict];
  }
  at("message").textContent = message;
  at("idea").textContent = `Idea: ${rung.idea}.`;
  const facts = [];
  if (rung.remark) facts.push(["What differs", rung.remark]);
  if (rung.expect) facts.push(["Expected", `${rung.expect} (written before it was measured)`]);
  if (mine) {
    facts.push(["Measured", other
      ? `${ms(other[0])} \u2192 ${ms(mine[0])}, one session each, on ${state.workload}, ${machine().name}`
      : `${ms(mine[0])} on ${state.workload}, ${machine().name}`]);
  } else {
    facts.push(["Measured", `no time of ${what} on ${state.workload} on ${machine().name}`]);
  }
  if (gain) {
    facts.push(["In turns", `${times(gain.value)} (95 % interval ${ends(gain.low, gain.high)}; ` +
      `${gain.sessions.join(" + ")} sessions; ${gain.verdict}) on ${gain.workload}, ${gain.gpu}`]);
  }
  const here = data.checked[rung.id];
  if (here) {
    facts.push(["On this machine", Object.entries(here).map(([status, names]) =>
      `${status} on ${names.length} workload${names.length > 1 ? "s" : ""}`).join(", ") + ` (${data.checked_on})`]);
  }
  at("facts").replaceChildren(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
}

const UNITS = { sm_percent: "arithmetic and the issue of instructions", l1_percent: "L1 and shared memory",
  l2_percent: "L2", dram_percent: "device memory" };
const NO_WAITS = ["issuing", "ready, another warp issues"];

// What limits a kernel, by the rule of `ladder explain`: device memory from 80 % of its peak on, the tensor cores from
// 60 %, else the busiest unit from 75 %; below that none, and warps wait for what takes longest.
function limitOf(count) {
  const percent = (name) => count.metrics[name] ?? 0;
  const busiest = Object.keys(UNITS).reduce((a, b) => (percent(b) > percent(a) ? b : a));
  let by = UNITS[busiest], share = percent(busiest), none = false;
  if (percent("dram_percent") >= 80) [by, share] = [UNITS.dram_percent, percent("dram_percent")];
  else if (percent("tensor_percent") >= 60) [by, share] = ["tensor cores", percent("tensor_percent")];
  else none = share < 75;
  const wait = count.stalls.find(([reason]) => !NO_WAITS.includes(reason));
  const text = (none ? `no unit: the busiest, ${by}, reaches ${Math.round(share)} % of its peak`
    : `${by}, at ${Math.round(share)} % of ${by === "tensor cores" ? "the time" : "its peak"}`) +
    (wait && wait[1] >= 0.1 ? `; warps wait ${Math.round(100 * wait[1])} % of their time: ${wait[0]}` : "");
  return { by: none ? "latency" : by, text: `${text.charAt(0).toUpperCase()}${text.slice(1)}.` };
}

function showLimits(rung, base) {
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  const rows = [[base, other, "Before"], [rung, mine, base ? "After" : "Now"]].filter(([one]) => one);
  at("limits").replaceChildren(...rows.flatMap(([one, count, when]) => [element("dt", `${when}, in ${one.id}`),
    element("dd", count ? limitOf(count).text : `Not profiled yet: ladder profile ${one.id}`)]));
}

function showClaims(rung) {
  at("claims").replaceChildren(...(rung.claims.length ? rung.claims : [null]).map((claim) => {
    if (!claim) return element("p", "None of the sources gives a figure for this step.");
    const made = element("p");
    const said = claim.claim.charAt(0).toUpperCase() + claim.claim.slice(1);
    made.append(`${said}, over ${claim.over}. Source ${claim.source}, ${claim.place}, states: ${claim.stated}. ` +
      (claim.ours ? `Ours: ${claim.ours}. ` : ""), "The claim: ", element("span", claim.verdict, "verdict"), ". ",
    claim.why ?? "");
    return made;
  }));
  at("rule").hidden = !rung.claims.length;
  at("rule").querySelector("div").textContent = data.claim_rule;
}

const SHOWN_AROUND = 3;  // equal lines around a change

function showDiff(rung, base) {
  const lines = (one) => (one?.code ? one.code.split("\n") : []);
  const pairs = lineUp(lines(base), lines(rung));
  const near = pairs.map(() => !base);
  pairs.forEach(([one, other], place) => {
    if (one === other) return;
    near.fill(true, Math.max(0, place - SHOWN_AROUND), place + SHOWN_AROUND + 1);
  });
  const narrow = innerWidth < 700, made = element("table"), body = made.createTBody();
  const add = (cells, className = "") => {
    const line = body.insertRow();
    line.className = className;
    for (const [text, kind, span] of cells) {
      const cell = element("td", text ?? "", kind);
      if (span) cell.colSpan = span;
      line.append(cell);
    }
  };
  if (base && !narrow) add([[base.id, "base"], [rung.id, "rung"]]);
  let hidden = 0, changed = 0;
  const fold = () => {
    if (hidden) add([[`${hidden} equal line${hidden > 1 ? "s" : ""}`, "", narrow ? 1 : 2]], "fold");
    hidden = 0;
  };
  // Two lines take no more room than what would say that they are left out.
  for (let i = 1; i + 1 < near.length; i++) near[i] ||= near[i - 1] && near.slice(i, i + 3).includes(true);
  pairs.forEach(([one, other], place) => {
    if (!near[place]) {
      hidden++;
      return;
    }
    fold();
    if (one === other) {
      add(narrow ? [[`  ${one}`]] : [[one], [other]]);
      return;
    }
    changed++;
    if (!narrow) add([[one, one === null ? "" : "removed"], [other, other === null ? "" : "added"]]);
    else {
      if (one !== null) add([[`- ${one}`, "removed"]]);
      if (other !== null) add([[`+ ${other}`, "added"]]);
    }
  });
  fold();
  at("diff").replaceChildren(made);
  const python = rung.file.endsWith(".py") ? " A peer in Python: see its file." : "";
  at("diff-note").textContent = base ? `${base.id} left, ${rung.id} right: ${changed} lines differ. Comments, blank ` +
    `lines and the card are left out.${python}` : `${rung.id} has nothing below it: all of its file.${python}`;
  const below = new Set(base?.parts ?? []);
  const parts = rung.parts.filter((name) => base && !below.has(name) && data.parts[name]);
  at("parts").replaceChildren(...parts.map((name) => {
    const more = element("details"), text = data.parts[name];
    more.append(element("summary", `a part that ${base.id} does not include: common/${name}, ` +
      `${text.split("\n").length} lines`), element("pre", text));
    return more;
  }));
}

// A pattern with * as `ladder run --workloads` takes it; several with commas.
const meets = (name, globs) => !globs || globs.split(",").some((glob) =>
  RegExp(`^${glob.trim().replaceAll(/[.+?^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*")}$`).test(name));

// What the formulas of a rung's lesson give for sizes N, D, K, by counter: each may use those before it. Registers are
// as counted: the compiler decides them.
function predictedOf(rung, count, [N, D, K]) {
  const names = { ...rung.axes, ...count?.axes, N, D, K, B: count?.type === "f64" ? 8 : 4,
    registers: count?.metrics.registers ?? null, reserved: data.limits.reserved_bytes ?? null };
  const found = {};
  for (const [name, plan] of Object.entries(rung.predicted ?? {})) {
    if (count && !meets(count.workload, plan.where)) continue;
    const value = valueOf(plan.tree, names);
    if (value !== null) names[name] = found[name] = value;
  }
  return found;
}

const FIRST = ["load_requests", "sectors_per_load", "dram_bytes", "l1_hit_percent", "fadd", "ffma", "registers",
  "shared_bytes", "bank_conflicts_load", "occupancy_theoretical_percent", "occupancy_achieved_percent",
  "instructions_per_cycle", "tensor_percent", "global_atomics", "shared_atomics", "dram_percent", "l1_percent"];

function showCounted(rung, base) {
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  const predicted = mine ? predictedOf(rung, mine, mine.size) : {};
  const names = mine ? Object.keys(mine.metrics) : [];
  const value = (name) => [other?.metrics[name], mine.metrics[name]];
  const moved = (name) => {
    const [before, after] = value(name);
    return !before || !after ? (before === after ? 0 : 9) : Math.abs(Math.log(after / before));
  };
  const chosen = names.filter((name) => name === rung.counter || name in predicted ||
    (FIRST.includes(name) && (value(name)[0] || value(name)[1]) && (!other || moved(name) > 0.02)));
  chosen.sort((a, b) => (b === rung.counter) - (a === rung.counter) || (b in predicted) - (a in predicted) ||
    FIRST.indexOf(a) - FIRST.indexOf(b));
  const formulas = chosen.some((name) => name in predicted);
  const both = base ? [base.id, rung.id] : [rung.id];
  const changes = base && innerWidth >= 700;  // a narrow page has no room for a column that the others give
  const head = ["counter", ...both, ...(formulas ? ["predicted"] : []), ...(changes ? ["change"] : [])];
  const rows = chosen.map((name) => {
    const [from, to] = value(name), told = data.metrics[name]?.[1] === "byte" ? bytes : number;
    const expected = name in predicted ? told(predicted[name]) : "";
    return [name, ...(base ? [told(from)] : []), told(to), ...(formulas ? [expected] : []),
      ...(changes ? [from && to ? times(to / from) : "\u2013"] : [])];
  });
  at("counted").replaceChildren(...(rows.length ? [table(head, rows)] : []));
  [...at("counted").querySelectorAll("tbody tr")].forEach((row, place) => {
    row.title = data.metrics[chosen[place]]?.[0] ?? "";
  });
  at("formulas").hidden = !formulas;
  at("formulas").querySelector("div").replaceChildren(...Object.entries(rung.predicted ?? {}).map(([name, plan]) =>
    element("pre", `${name} = ${plan.formula}${plan.where ? `   on ${plan.where}` : ""}`)));
  const elsewhere = mine && mine.workload !== state.workload ? `, not on ${state.workload}` : "";
  at("counted-note").textContent = mine
    ? `Counted by Nsight Compute on ${data.counted_on}, ${mine.workload}${elsewhere}: ` +
      `${lower(data.scopes[mine.scope])}, ${mine.kernel}.` +
      (other && other.workload !== mine.workload ? ` ${base.id} was counted on ${other.workload}.` : "") +
      (rung.counter ? ` First the counter that should show the step: ${data.metrics[rung.counter]?.[0]}.` : "")
    : `${rung.id} has no counters in the profile yet: ladder profile ${rung.id}`;
}

function showTimes(rung, base) {
  const rows = { base: [], rung: [] }, scopes = [];
  for (const scope of Object.keys(data.scopes)) {
    for (const [who, one] of [["base", base], ["rung", rung]]) {
      const found = one && timeOf(one.id, scope);
      if (!found) continue;
      if (!scopes.includes(scope)) scopes.push(scope);
      const [median, low, high] = found;
      const spread = low !== null ? `quartiles ${number(low)} to ${number(high)}` : "below five samples: no quartiles";
      rows[who].push({ x: median, low: low ?? median, high: high ?? median, name: one.id, scope,
        text: `${ms(median)}, ${spread}` });
    }
  }
  charts.times.update(scopes, rows);
  const text = scopes.length ? `Median and quartiles of one session on ${state.workload}, ${machine().name}.`
    : `Neither has a valid time on ${state.workload} on ${machine().name}.` + measuredOn(rung);
  at("times-note").replaceChildren(...(base ? [legend("base", base.id), legend("rung", rung.id)] : []), text);
  const said = [...rows.base, ...rows.rung].map((row) => ` ${row.name}, ${row.scope}: ${row.text}.`);
  charts.times.told(text + said.join(""), scopes.length > 0);
}

function measuredOn(rung) {
  const names = Object.keys(machine().times[rung.id] ?? {});
  return ` ${rung.id} is ${names.length ? `measured on ${names.slice(0, 4).join(", ")}` : "not measured there"}.`;
}

function legend(who, text) {
  const made = element("span", undefined, who), mark = element("i", undefined, "swatch");
  mark.style.background = `var(--${who})`;
  made.append(mark, `${text} `);
  return made;
}

function showStalls(rung, base) {
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  const bars = [];
  if (other?.stalls.length) bars.push({ name: base.id, stalls: other.stalls });
  if (mine?.stalls.length) bars.push({ name: rung.id, stalls: mine.stalls });
  const keys = charts.stalls.update(bars);
  at("stalls-key").replaceChildren(...(bars.length ? keys : []).map(([reason, shade]) => {
    const made = element("span"), mark = element("i");
    mark.style.background = shade;
    made.append(mark, reason);
    return made;
  }));
  const top = (bar) => `${bar.name}: ${bar.stalls.slice(0, 2).map(([reason, share]) =>
    `${reason} ${Math.round(100 * share)} %`).join(", ")}`;
  const text = bars.length ? `${bars.map(top).join("; ")}. Counted on ${(mine ?? other).workload}.`
    : `Neither has counted stalls: ladder profile ${rung.id}`;
  at("stalls-note").textContent = text;
  charts.stalls.told(`Reasons for which warps wait. ${text}`, bars.length > 0);
}

// Where a rung stands: operations that the problem needs, by counted bytes and by measured time.
function dotOf(id, workload, scope) {
  const count = data.counts[id]?.[workload]?.[scope], time = data.machines[0].times[id]?.[workload]?.[scope];
  if (!count?.bytes || !time || !["assign", "iteration"].includes(scope)) return null;
  const [n, d, k] = count.size, work = leastWork({ n, d, k }).flop;
  const x = work / count.bytes, y = work / time[0] / 1e6;
  return { x, y, name: id, text: `${number(x)} operations per byte, ${number(y)} GFLOP/s (${ms(time[0])})` };
}

function showRoofline(rung, base) {
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  const workload = (mine ?? other)?.workload, scope = (mine ?? other)?.scope;
  const dots = [[base, "base"], [rung, "rung"]].map(([one, key]) => {
    const dot = one && dotOf(one.id, workload, scope);
    return dot && { ...dot, key };
  }).filter(Boolean);
  const others = dots.length ? chainOf(rung.id).filter((id) => id !== rung.id && id !== base?.id)
    .map((id) => dotOf(id, workload, scope)).filter(Boolean) : [];
  const ceilings = data.machines[0].ceilings, roofs = [];
  const rates = [["fp32", ceilings.fp32_gflops, false], ["fp16 tensor cores", ceilings.tensor_fp16_gflops, false]];
  if (!ceilings.tensor_fp16_gflops) rates[1] = [`fp16 tensor cores, ${data.other_gpu.split(" ")[1]}`,
    data.other_ceilings.tensor_fp16_gflops, true];
  const narrow = innerWidth < 500;  // room for a word
  for (const [name, gflops, elsewhere] of rates) {
    const text = narrow ? name.split(" ")[0] : `${name}: ${number(gflops / 1000)} TFLOP/s`;
    if (gflops) roofs.push({ gflops, other: elsewhere, name: text });
  }
  charts.roofline.update(dots, others, roofs, ceilings.read_gbs);
  const text = dots.length
    ? `${dots.map((dot) => `${dot.name}: ${dot.text}`).join("; ")}. On ${workload}. Operations are the 2 N K D that ` +
      "an assignment needs, bytes are counted; grey: the other rungs below it. The slope is device memory, " +
      `${number(ceilings.read_gbs)} GB/s.` + (roofs.some((roof) => roof.other)
        ? ` Dashed: measured on ${data.other_gpu}.` : "")
    : `Needs a time and counted bytes of the same workload, which ${rung.id} has not.`;
  at("roofline-note").textContent = text;
  charts.roofline.told(text, dots.length > 0);
}

const PER_RUNG = 24;  // pixels that the name of a rung takes below the chain

function showChain(rung, base) {
  const most = Math.max(6, Math.floor(at("chain").parentElement.clientWidth / PER_RUNG));
  const names = chainOf(rung.id).slice(-most);
  if (base && !names.includes(base.id)) names.unshift(base.id);
  const rows = names.map((id) => [id, timeOf(id)]).filter(([, time]) => time)
    .map(([id, time]) => ({ x: id, y: time[0], text: ms(time[0]),
      who: id === rung.id ? "rung" : id === base?.id ? "base" : "" }));
  charts.chain.update(rows);
  const text = rows.length ? `${data.scopes[state.scope]} on ${state.workload}, from ${rows[0].x} ` +
    `(${rows[0].text}) to ${rows.at(-1).x} (${rows.at(-1).text}): ${rows.length} rungs have ` +
    `a time, of ${names.length} on the way.`
    : `No rung on the way to ${rung.id} has a time of ${data.scopes[state.scope]} on ${state.workload}.`;
  at("chain-note").textContent = text.charAt(0).toUpperCase() + text.slice(1);
  charts.chain.told(text, rows.length > 0);
}

function showSized(rung, base) {
  for (const name of Object.keys(SLIDERS)) {
    const [low, high] = SLIDERS[name];
    at(name).value = Math.round(STEPS * Math.log(state[name] / low) / Math.log(high / low));
    at(name).setAttribute("aria-valuetext", state[name].toLocaleString("en-US"));
    at(`${name}-value`).textContent = state[name].toLocaleString("en-US");
  }
  const here = { n: state.n, d: state.d, k: state.k }, ceilings = data.machines[0].ceilings;
  const work = leastWork(here), floor = floorOf(work, ceilings);
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  const found = [[base, other, "base"], [rung, mine, "rung"]].filter(([one, count]) => one && count)
    .map(([one, count, who]) => [one, scaled(count, here, ceilings, data.machines[0].processors ?? 1), who, count]);
  const bars = [["arithmetic in fp32", floor.flop], ["least bytes", floor.bytes]]
    .map(([y, x]) => ({ y, x, who: "quiet" }));
  for (const [one, there, who] of found) {
    bars.push({ y: `bytes of ${one.id}`, x: there.bytes / ceilings.read_gbs / 1e6, who });
  }
  at("sized-note").textContent = "Predicted, not measured. The least that an assignment must do follows from N, D " +
    `and K; times are by what ${data.machines[0].name} reaches. What each rung moves and how it fills the GPU is ` +
    "scaled from what was counted.";
  charts.floors.update(bars.filter((bar) => bar.x > 0).map((bar) => ({ ...bar, text: ms(bar.x) })));
  const of = (pick) => found.map(([, there]) => pick(there));
  const least = [["operations, least", number(work.flop)], ["bytes, least", bytes(work.bytes)],
    [`floor, by ${floor.flop >= floor.bytes ? "arithmetic" : "bytes"}`, ms(floor.most)]];
  const rows = least.map(([name, text]) => [name, ...(found.length ? found : [0]).map(() => text)]);
  if (found.length) {
    rows.push(["points read from memory, times", ...of((there) => number(there.passes))]);
    rows.push(["bytes of points", ...of((there) => bytes(there.bytes))]);
    rows.push(["time of these bytes, least", ...of((there) => ms(there.bytes / ceilings.read_gbs / 1e6))]);
    rows.push(["occupancy by registers, shared memory and block", ...of((there) => `${number(there.occupancy)} %`)]);
    rows.push(["blocks, and rounds of them", ...of((there) => `${number(there.blocks)}, ${number(there.waves)}`)]);
    rows.push(["GPU filled, last round included", ...of((there) => `${number(there.filled)} %`)]);
    const plans = found.map(([one, , , count]) => predictedOf(one, count, [here.n, here.d, here.k]));
    for (const name of new Set(plans.flatMap((plan) => Object.keys(plan)))) {
      const told = data.metrics[name]?.[1] === "byte" ? bytes : number;
      if (name in data.metrics) rows.push([`${name}, predicted`, ...plans.map((plan) => told(plan[name]))]);
    }
  }
  at("sized").replaceChildren(table(["", ...(found.length ? found.map(([one]) => one.id) : ["any rung"])], rows));
  const said = bars.map((bar) => `${bar.y} ${ms(bar.x)}`).join("; ");
  charts.floors.told(`Least times at this size: ${said}.`, floor.most > 0);
}

function showQuestion(rung, base) {
  const { mine, other } = countsOf(rung.id, base?.id ?? "");
  let question = rung.question, answer = rung.answer;
  if (!question && rung.counter && mine && other) {
    const unit = data.metrics[rung.counter]?.[1];
    const told = (count) => `${number(count.metrics[rung.counter])}${unit ? ` ${unit}` : ""}`;
    question = `On ${mine.workload}, ${base.id} has ${rung.counter} of ${told(other)}. What does ${rung.id} have, ` +
      "and why?";
    answer = `${told(mine)}. ${rung.counter}: ${data.metrics[rung.counter]?.[0] ?? ""}. The idea: ${rung.idea}.`;
  } else if (!question) {
    const before = base && timeOf(base.id), after = timeOf(rung.id);
    question = `The idea is: ${rung.idea}. What do you expect of its time, and which counter would show it?`;
    answer = (rung.expect ? `Expected: ${rung.expect}. ` : "") + (before && after
      ? `Measured: ${ms(before[0])} before, ${ms(after[0])} after.` : "It has no time beside the other one here.");
  }
  at("question").textContent = question;
  at("answer").open = false;
  at("answer").querySelector("div").textContent = answer;
}

// ---------------------------------------------------------------------------------------------------------------- all

function setTheme() {
  const dark = state.theme ? state.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (document.documentElement.dataset.theme === (dark ? "dark" : "light")) return;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  at("theme").textContent = dark ? "light" : "dark";
  at("theme").setAttribute("aria-pressed", String(dark));
  at("theme").setAttribute("aria-label", `change to ${dark ? "light" : "dark"} colours`);
  if (charts) for (const chart of Object.values(charts)) chart.paint();
}

function setList() {
  at("rung").size = innerWidth >= 1000 ? 14 : 1;
}

function show() {
  const rung = rungOf(state.rung), base = state.base ? rungOf(state.base) : null;
  document.title = `${rung.id}: K-means Ladder`;
  setTheme();
  fillLists();
  for (const part of [showStep, showDiff, showCounted, showLimits, showStalls, showRoofline, showTimes, showClaims, showChain,
    showQuestion]) {
    part(rung, base);
  }
  showSized(rung, base);
  document.body.dataset.shown = location.hash;
}

function listen() {
  for (const name of ["rung", "base", "workload", "scope"]) {
    at(name).addEventListener("change", () => choose({ [name]: at(name).value }));
  }
  at("machine").addEventListener("change", () => choose({ machine: Number(at("machine").value) }));
  at("previous").addEventListener("click", () => choose({ rung: rungOf(state.rung).base }));
  at("next").addEventListener("click", () => choose({ rung: following().id }));
  for (const [name, [low, high]] of Object.entries(SLIDERS)) {
    Object.assign(at(name), { min: 0, max: STEPS, step: 1 });
    at(name).addEventListener("input", () => {
      const value = low * Math.exp(at(name).value / STEPS * Math.log(high / low));
      const digits = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
      choose({ [name]: Math.round(Math.round(value / digits) * digits) });
    });
  }
  at("reset").addEventListener("click", () => choose((({ n, d, k }) => ({ n, d, k }))(data.workloads[state.workload])));
  at("theme").addEventListener("click", () =>
    choose({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" }));
  at("choice").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => { read(); show(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  addEventListener("resize", () => {
    setList();
    const narrow = String(innerWidth < 700);
    for (const part of narrow !== applied ? [showDiff, showCounted] : []) {
      part(rungOf(state.rung), state.base ? rungOf(state.base) : null);
    }
    applied = narrow;
  });
}

async function unpacked() {
  const text = atob(at("data").textContent.trim());
  const packed = new Blob([Uint8Array.from(text, (letter) => letter.charCodeAt(0))]);
  return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function start() {
  data = await unpacked();
  rungs = new Map(data.rungs.map((rung) => [rung.id, rung]));
  at("links").append(...data.links.map(([text, href]) => Object.assign(element("a", text), { href })));
  at("origin").textContent = data.origin;
  at("made").textContent = data.made;
  fillRungs();
  setList();
  read();
  setTheme();
  charts = { times: new TimesChart(), stalls: new StallsChart(), roofline: new RooflineChart(), chain: new ChainChart(),
    floors: new FloorsChart() };
  listen();
  show();
  await Promise.all(Object.values(charts).map((chart) => chart.show()));
  write();
  document.body.dataset.ready = "yes";
}

start().catch((error) => {
  at("failed").hidden = false;
  at("failed").textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`;
  throw error;
});
