// What the page knows, and what can be done with it.

import { batch, computed, effect, signal } from "@preact/signals";
import type { RunRequest } from "../../client/src/index.js";
import { ask, locked, Problem, setKey, type Agent, type Entry, type Model, type Session, type Workflow } from "./api.js";
import { Live } from "./live.js";
import { readPlace, writePlace, type Place, type RunFilter } from "./place.js";
import { keep, kept } from "./storage.js";

// The theme.

export type Theme = "auto" | "light" | "dark";

export const theme = signal<Theme>((document.documentElement.dataset.theme as Theme) ?? "auto");

export function chooseTheme(next: Theme): void {
  theme.value = next;
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  keep("local", "theme", next === "auto" ? undefined : next);
}

// What the server has.

export interface Catalog {
  version: string;
  workflows: Workflow[];
  agents: Agent[];
  models: Model[];
}

export const catalog = signal<Catalog | undefined>(undefined);
export const sessions = signal<{ list: Session[]; next?: string }>({ list: [] });
/** Set while the server does not say what it has: why, and when it is asked again, in epoch ms. */
export const unreachable = signal<{ until: number; why: Problem } | undefined>(undefined);

/** How many bytes a file of a message may have; undefined if the server does not say it. */
export const uploadLimit = signal<number | undefined>(undefined);

/** Reads a header such as `max-size=16777216, max-age=60`. */
export function readUploadLimit(header: string | null): number | undefined {
  return Number(/(?:^|[\s,])max-size=(\d+)/.exec(header ?? "")?.[1]) || undefined;
}

let again: ReturnType<typeof setTimeout> | undefined;
let asked = 0;

// Whoever writes a workflow comes back from the editor and wants to see it.
addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible" || Date.now() - asked < 3000 || !catalog.peek()) return;
  graphs.clear();
  void loadCatalog();
});

/** Loads what the server has, and tries until it is there. */
export async function loadCatalog(tries = 0): Promise<void> {
  clearTimeout(again);
  asked = Date.now();
  try {
    // First by itself: who is let in is told by one answer as well as by three.
    const workflows = await ask<{ workflows: Workflow[] }>("/v1/workflows");
    const [health, agents, models] = await Promise.all([
      ask<{ version: string }>("/healthz"),
      ask<{ agents: Agent[] }>("/v1/agents", undefined, "GET", {}, (answer) => (uploadLimit.value = readUploadLimit(answer.headers.get("Upload-Limit")))).catch(noneWhere404({ agents: [] })),
      ask<{ data: Model[] }>("/v1/models"),
    ]);
    const first = somewhere(place.peek()) ? undefined : await mostBots(workflows.workflows);
    batch(() => {
      unreachable.value = undefined;
      locked.value = undefined;
      catalog.value = {
        version: health.version, workflows: workflows.workflows, agents: agents.agents,
        // Agents and workflows are listed, too, for clients that know of models only.
        models: models.data.filter((m) => m.owned_by !== "agent" && m.owned_by !== "workflow"),
      };
      settle(first);
    });
    await loadSessions();
  } catch (error) {
    const why = error instanceof Problem ? error : new Problem("protocol", (error as Error).message);
    if (why.status === 401) { // somebody has to do something before it is worth another try
      unreachable.value = undefined;
      return;
    }
    const pause = why.retryAfter ?? Math.min(15, 1.5 ** tries);
    unreachable.value = { until: Date.now() + pause * 1000, why };
    again = setTimeout(() => void loadCatalog(tries + 1), pause * 1000);
  }
}

/** Asks the server again, as somebody who has this key. */
export async function signIn(key: string): Promise<void> {
  setKey(key);
  await loadCatalog();
}

/** Forgets the key, and all that was seen with it. */
export function signOut(): void {
  setKey(undefined);
  keep("session", "runs", undefined);
  keep("local", "place", undefined);
  location.assign("/"); // nothing is left behind in the page
}

function noneWhere404<T>(none: T): (error: Problem) => T {
  return (error) => {
    if (error.status === 404) return none;
    throw error;
  };
}

/** Loads the newest sessions, or those after the ones that are there. */
export async function loadSessions(after?: string): Promise<void> {
  try {
    const page = await ask<{ sessions: Session[]; next?: string }>("/v1/sessions?limit=30" + (after ? "&after=" + encodeURIComponent(after) : ""));
    const known = after ? sessions.value.list : [];
    sessions.value = { list: [...known, ...page.sessions.filter((s) => !known.some((k) => k.id === s.id))], next: page.next };
  } catch {
    if (!after) sessions.value = { list: [] }; // a server without sessions, or one that will be told about elsewhere
  }
}

// Where one is.

export const place = signal<Place>(readPlace(location.hash));

export const workflow = computed(() => catalog.value?.workflows.find((w) => w.name === place.value.workflow));
export const agent = computed(() => catalog.value?.agents.find((a) => a.name === place.value.agent));

// The graph of a workflow is told one by one.
const graphs = new Map<string, Promise<Workflow>>();
export const described = signal<Workflow | undefined>(undefined);

function describe(name: string): Promise<Workflow> {
  let known = graphs.get(name);
  if (!known) {
    known = ask<Workflow>("/v1/workflows/" + encodeURIComponent(name));
    graphs.set(name, known);
    known.catch(() => graphs.delete(name));
  }
  return known;
}

/** How many workflows are looked at for the one that somebody who comes for the first time sees. */
const mostLooked = 12;

// The workflow of the most bots: it shows best what the server does.
async function mostBots(workflows: Workflow[]): Promise<string | undefined> {
  const all = await Promise.all(workflows.slice(0, mostLooked).map((w) => describe(w.name).catch(() => w)));
  const bots = (w: Workflow): number => w.graph?.bots.length ?? 0;
  return all.toSorted((a, b) => bots(b) - bots(a))[0]?.name;
}

// Whether a place leads anywhere, by itself or since one has been somewhere before.
function somewhere(at: Place): boolean {
  return !!(at.list || at.workflow || at.agent || at.session || at.runs.length > 0 || kept<string>("local", "place"));
}

// Goes to where an address leads that says too little, such as "/".
function settle(first?: string): void {
  const { workflows, agents } = catalog.value!;
  const at = place.value;
  if (!at.list && !at.workflow && !at.agent && at.runs.length === 0) {
    const last = readPlace(kept<string>("local", "place") ?? "");
    const known = (last.workflow && workflows.some((w) => w.name === last.workflow)) || (last.agent && agents.some((a) => a.name === last.agent));
    if (at.session) move({ agent: agents[0]?.name, session: at.session, runs: [] });
    else if (known) move({ ...last, runs: [] });
    else move({ workflow: first ?? workflows[0]?.name, agent: workflows[0] ? undefined : agents[0]?.name, runs: [] });
  }
}

function move(to: Place): void {
  place.value = to;
  history.replaceState(null, "", writePlace(to));
}

/** Shows other runs in the list. The back button leaves the list. */
export function filterRuns(list: RunFilter): void {
  move({ runs: [], list });
}

addEventListener("hashchange", () => {
  const to = readPlace(location.hash);
  if (writePlace(to) === writePlace(place.value)) return;
  if (to.session && !to.agent) to.agent = place.value.agent ?? catalog.value?.agents[0]?.name;
  go(to);
});

// Runs that one has left while they ran, by their sessions: whoever comes back sees them go on.
const left = new Map<string, string[]>();

function go(to: Place): void {
  if (to.session && to.runs.length === 0) to.runs = left.get(to.session) ?? [];
  const stay = lives.peek().filter((l) => l.id !== undefined && to.runs.includes(l.id));
  const session = place.peek().session;
  if (session) left.set(session, lives.peek().flatMap((l) => (l.id && !l.over ? l.id : [])));
  for (const l of lives.peek()) if (!stay.includes(l)) l.run.close();
  batch(() => {
    lives.value = stay;
    if (location.hash !== writePlace(to)) move(to);
    else place.value = to;
    if (catalog.value) settle();
  });
}

effect(() => {
  const { workflow: name, agent: who, session } = place.value;
  if (name || who) keep("local", "place", writePlace({ workflow: name, agent: who, session, runs: [] }));
});

effect(() => {
  const name = workflow.value?.name ?? agent.value?.workflow;
  if (described.peek()?.name !== name) described.value = undefined;
  if (!name) return;
  describe(name).then((w) => (workflow.peek()?.name ?? agent.peek()?.workflow) === name && (described.value = w), () => {});
});

// The runs.

export const lives = signal<Live[]>([]);
/** The one whose events and figures are shown. */
export const chosen = signal<Live | undefined>(undefined);
export const live = computed(() => (chosen.value && lives.value.includes(chosen.value) ? chosen.value : lives.value.at(-1)));
/** Is another number when a run has ended, and so what is remembered may be more. */
export const ended = signal(0);

// Runs that the place names are followed.
effect(() => {
  const { runs, workflow: name } = place.value;
  if (name && described.value?.name !== name && (!catalog.value || workflow.value)) return; // its bots are needed first
  const now = lives.peek();
  const come = runs.filter((id) => !now.some((l) => l.id === id)).map((id) => follow(new Live({ id }, described.peek()?.graph)));
  if (come.length > 0) lives.value = [...come, ...now];
});

// Follows a run. It changes the address only while it is shown: a run that one has left goes on without moving the place.
function follow(l: Live): Live {
  let named = false; // the address names it
  let over = false;
  const stop = l.revision.subscribe(() => {
    queueMicrotask(() => {
      if (over) return;
      over = l.settled;
      const at = place.peek();
      if (over) {
        stop();
        ended.value++;
        if (at.agent) void loadSessions();
      }
      if (!lives.peek().includes(l)) return;
      if (!at.workflow && !at.agent) return settleBy(l);
      if (l.id) {
        const next: Place = { ...at };
        if (!named) next.runs = lives.peek().flatMap((x) => x.id ?? []);
        if (next.agent) next.session ??= l.started?.session;
        named = true;
        if (writePlace(next) !== writePlace(at)) move(next);
      }
      if (!over) return;
      // What the server has forgotten of a session is on its tape.
      if (l.resumed && at.agent && ["gone", "not_found"].includes(l.run.error?.code ?? "")) return drop(l);
      if (l.followUp && !lives.peek().some((x) => x.id === l.followUp)) {
        lives.value = [...lives.peek(), follow(new Live({ id: l.followUp }, described.peek()?.graph))];
      }
    });
  });
  return l;
}

// An address may have no more than a run: what it is of, the run itself says. Then it is followed once more, by somebody who knows
// its bots.
function settleBy(l: Live): void {
  if (!l.started) return;
  const { workflow: name, agent: who, session } = l.started;
  l.run.close();
  batch(() => {
    lives.value = [];
    move({ workflow: who ? undefined : name, agent: who, session: who && session, runs: [l.id!] });
  });
}

function drop(l: Live): void {
  batch(() => {
    lives.value = lives.peek().filter((x) => x !== l);
    move({ ...place.peek(), runs: place.peek().runs.filter((id) => id !== l.id) });
  });
}

/** Starts a run of a workflow, which takes the place of the one that was shown. */
export function start(request: RunRequest): Live {
  forget();
  const l = follow(new Live({ request }, described.peek()?.graph));
  batch(() => {
    chosen.value = undefined;
    lives.value = [l];
  });
  return l;
}

/** Says something to the agent: a run more in its session. Returns undefined if one has gone elsewhere before the server answered. */
export async function say(request: RunRequest): Promise<Live | undefined> {
  const graph = described.peek()?.graph;
  if (request.on_busy === "steer") {
    const from = place.peek();
    // The answer may be a run that is followed already.
    const answer = await ask<{ run: string }>("/v1/runs", request, "POST", { Prefer: "respond-async" });
    const { agent: who, session } = place.peek();
    if (who !== from.agent || session !== from.session) return undefined;
    const known = lives.peek().find((l) => l.id === answer.run);
    if (known) {
      known.steered.push(String(request.input));
      known.revision.value++;
      return known;
    }
    const l = follow(new Live({ id: answer.run }, graph));
    l.request = request;
    lives.value = [...lives.peek(), l];
    return l;
  }
  const l = follow(new Live({ request }, graph));
  batch(() => {
    chosen.value = undefined;
    lives.value = [...lives.peek(), l];
  });
  return l;
}

/** Follows a run anew, at once. */
export function reconnect(l: Live): void {
  if (!l.id) return;
  const next = follow(new Live({ id: l.id }, described.peek()?.graph));
  l.run.close();
  lives.value = lives.peek().map((x) => (x === l ? next : x));
}

/** Goes to a session of the agent; to a new one where none is named. */
export function openSession(session?: string): void {
  location.hash = writePlace({ agent: place.peek().agent, session, runs: [] });
  void loadSessions();
}

/** Clears what is shown of runs. They go on. */
export function forget(): void {
  go({ ...place.peek(), runs: [] });
}

// What was said in a session before this page.

export interface Past {
  session: string;
  entries: Entry[];
  from: number; // id of the entry before the first
  failed?: string;
}

export const past = signal<Past | undefined>(undefined);
const pastPage = 400;

/** Loads the newest entries of the session, or some more before those that are there. */
export async function loadPast(session: string, before?: Past): Promise<void> {
  const path = "/v1/sessions/" + encodeURIComponent(session);
  try {
    const last = before ? before.from : (await ask<{ last_id: number }>(path)).last_id;
    const from = Math.max(0, last - pastPage);
    const entries: Entry[] = [];
    for (let after: number | undefined = from; after !== undefined && after < last; ) {
      const page: { entries: Entry[]; next?: number } = await ask(`${path}/tape?after=${after}&limit=${Math.min(1000, last - after)}`);
      entries.push(...page.entries);
      after = page.next;
    }
    if (place.peek().session !== session) return;
    past.value = { session, from, entries: before ? [...entries, ...before.entries] : entries };
  } catch (error) {
    if (place.peek().session !== session) return;
    // A session that nobody has spoken in yet is not there.
    past.value = { session, from: 0, entries: before?.entries ?? [], failed: (error as Problem).status === 404 ? undefined : (error as Error).message };
  }
}
