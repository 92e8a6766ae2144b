// Where the bots of a workflow's graph are drawn: in layers, so that what starts something is before it, and the lines between them.

export interface Trigger {
  string?: string;
  object?: string;
  value?: string;
  done?: string | string[];
  completed?: string | string[];
  error?: string;
}

/** What starts a bot: a trigger, or several, each by itself. */
export type On = Trigger | Trigger[];

export interface Bot {
  name: string;
  root: string;
  format: string;
  model?: string;
  on?: On;
  after?: string[];
}

/** The graph as `GET /v1/workflows/{name}` has it. */
export interface WorkflowGraph {
  bots: Bot[];
  events?: { name: string; on: On }[];
}

export interface Edge {
  from: number;
  to: number;
  back: boolean; // closes a circle
}

export interface Place {
  layer: number;
  order: number; // in its layer
}

export interface Layout {
  places: Place[]; // of each bot
  layers: number[][]; // bots by layer, in order
  edges: Edge[];
}

/** Lays a graph out: each bot a layer behind the last of those that start it, circles cut where they come back. */
export function layout(bots: readonly Bot[]): Layout {
  const index = new Map(bots.map((b, i) => [b.name, i]));
  const edges: Edge[] = [];
  bots.forEach((b, to) => {
    for (const name of new Set(b.after ?? [])) {
      const from = index.get(name);
      if (from !== undefined) edges.push({ from, to, back: false });
    }
  });
  const out: Edge[][] = bots.map(() => []);
  for (const e of edges) out[e.from]!.push(e);

  // Edges that lead back to what led here. Those that begin a run come first, so that circles are cut where they return to them.
  const state = new Uint8Array(bots.length); // 1: on the way, 2: left
  const visit = (start: number): void => {
    const way: { at: number; next: number }[] = [{ at: start, next: 0 }];
    state[start] = 1;
    while (way.length > 0) {
      const here = way.at(-1)!;
      const e = out[here.at]![here.next++];
      if (!e) {
        state[here.at] = 2;
        way.pop();
      } else if (state[e.to] === 1) e.back = true;
      else if (state[e.to] === 0) {
        state[e.to] = 1;
        way.push({ at: e.to, next: 0 });
      }
    }
  };
  bots.forEach((b, i) => !b.on && state[i] === 0 && visit(i));
  bots.forEach((_, i) => state[i] === 0 && visit(i));

  // The longest way from a beginning.
  const into = new Int32Array(bots.length);
  for (const e of edges) if (!e.back) into[e.to]!++;
  const layerOf = new Int32Array(bots.length);
  const ready = bots.map((_, i) => i).filter((i) => into[i] === 0);
  for (let at = 0; at < ready.length; at++) {
    for (const e of out[ready[at]!]!) {
      if (e.back) continue;
      layerOf[e.to] = Math.max(layerOf[e.to]!, layerOf[e.from]! + 1);
      if (--into[e.to]! === 0) ready.push(e.to);
    }
  }
  const layers: number[][] = [];
  bots.forEach((_, i) => (layers[layerOf[i]!] ??= []).push(i));

  // Within a layer, bots stand where those around them are: a few sweeps to and fro, as Sugiyama has it.
  const places: Place[] = bots.map((_, i) => ({ layer: layerOf[i]!, order: 0 }));
  const number = (layer: number[]): void => layer.forEach((b, order) => (places[b]!.order = order));
  layers.forEach(number);
  const sort = (layer: number[], forward: boolean): void => {
    const middle = (b: number): number => {
      let sum = 0;
      let n = 0;
      for (const e of edges) {
        const other = forward ? (e.to === b ? e.from : -1) : e.from === b ? e.to : -1;
        if (other < 0 || e.back) continue;
        const among = layers[places[other]!.layer]!.length;
        sum += (places[other]!.order + 0.5) / among;
        n++;
      }
      return n > 0 ? sum / n : (places[b]!.order + 0.5) / layer.length;
    };
    const at = new Map(layer.map((b) => [b, middle(b)]));
    layer.sort((a, b) => at.get(a)! - at.get(b)! || places[a]!.order - places[b]!.order);
    number(layer);
  };
  for (let sweep = 0; sweep < 4; sweep++) {
    for (const layer of layers) sort(layer, true);
    for (let i = layers.length - 1; i >= 0; i--) sort(layers[i]!, false);
  }
  for (const layer of layers) sort(layer, true);
  return { places, layers, edges };
}

/** The order of bots in a single column: each behind those that start it, and near them. */
export function order(laid: Layout): number[] {
  const into = laid.places.map(() => 0);
  const out: number[][] = laid.places.map(() => []);
  for (const e of laid.edges) {
    if (e.back) continue;
    into[e.to]!++;
    out[e.from]!.push(e.to);
  }
  const list: number[] = [];
  const ready = laid.places.map((_, i) => i).filter((i) => into[i] === 0).reverse();
  while (ready.length > 0) {
    const b = ready.pop()!;
    list.push(b);
    for (const to of out[b]!.reverse()) if (--into[to]! === 0) ready.push(to);
  }
  return list;
}

/**
 * Gives each span a lane, so that none of a lane overlap, short ones the first lanes. No more than most lanes: what finds no place then
 * shares the last one.
 */
export function lanes(spans: readonly { from: number; to: number }[], most: number): number[] {
  const taken: { from: number; to: number }[][] = [];
  const out = spans.map(() => 0);
  const byLength = spans.map((_, i) => i).sort((a, b) => spans[a]!.to - spans[a]!.from - (spans[b]!.to - spans[b]!.from) || a - b);
  for (const i of byLength) {
    const s = spans[i]!;
    let lane = taken.findIndex((there) => there.every((t) => t.to <= s.from || s.to <= t.from));
    if (lane < 0) lane = Math.min(taken.length, most - 1);
    (taken[lane] ??= []).push(s);
    out[i] = lane;
  }
  return out;
}

/** What starts a bot, or sends an event, as a sentence's end: "when …". */
export function sayTrigger(on: On | undefined): string {
  if (!on) return "starts with the run";
  if (Array.isArray(on)) return on.map((one) => sayTrigger(one)).join(", or ");
  if (on.done !== undefined) return `when ${all(on.done)} ${Array.isArray(on.done) ? "have" : "has"} ended`;
  if (on.completed !== undefined) return `when ${all(on.completed)} ${Array.isArray(on.completed) ? "have" : "has"} ended without a failure`;
  if (on.error !== undefined) return `when ${on.error} has failed`;
  if (on.string !== undefined) return `for each text at ${on.string || "the root"}`;
  if (on.object !== undefined) return `for each object at ${on.object || "the root"}`;
  return `for each value at ${on.value || "the root"}`;
}

/** The same as short as it fits in a box: what kind, and the pattern or name. */
export function shortTrigger(on: On | undefined): string {
  if (!on) return "at the start";
  if (Array.isArray(on)) return on.map((one) => shortTrigger(one)).join(" or ");
  if (on.done !== undefined) return `after ${all(on.done)}`;
  if (on.completed !== undefined) return `if ${all(on.completed)} completed`;
  if (on.error !== undefined) return `if ${on.error} fails`;
  return "on " + ((on.string ?? on.object ?? on.value) || "the root");
}

/** The names of bots that are waited for together. */
const all = (names: string | string[]): string => [names].flat().join(" and ");

/** Cuts a text in its middle, where its ends say the most. */
export function clip(text: string, most: number): string {
  const chars = [...text];
  if (chars.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return chars.slice(0, head).join("") + "…" + chars.slice(chars.length - (most - 1 - head)).join("");
}
