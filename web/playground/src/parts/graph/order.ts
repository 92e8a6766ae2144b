// The bots of a workflow's graph in the order in which they run, and what starts them in words.

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

/** The places of the bots in their graph, each behind those that start it and near them. Circles are cut where they come back. */
export function order(bots: readonly Bot[]): number[] {
  const index = new Map(bots.map((b, i) => [b.name, i]));
  const starts: number[][] = bots.map(() => []);
  bots.forEach((b, to) => {
    for (const name of new Set(b.after ?? [])) {
      const from = index.get(name);
      if (from !== undefined) starts[from]!.push(to);
    }
  });
  // Ends of a depth-first walk, from the last to the first, are such an order.
  const seen = new Uint8Array(bots.length);
  const ends: number[] = [];
  const visit = (first: number): void => {
    if (seen[first]) return;
    seen[first] = 1;
    const way = [{ at: first, next: starts[first]!.length }];
    while (way.length > 0) {
      const here = way.at(-1)!;
      const to = starts[here.at]![--here.next];
      if (here.next < 0) {
        ends.push(here.at);
        way.pop();
      } else if (!seen[to!]) {
        seen[to!] = 1;
        way.push({ at: to!, next: starts[to!]!.length });
      }
    }
  };
  for (const begins of [true, false]) for (let i = bots.length - 1; i >= 0; i--) if (!bots[i]!.on === begins) visit(i);
  return ends.reverse();
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
