// The list of runs: which ones it selects, what the server says of them, and how their times are written.

import { signal } from "@preact/signals";
import { ask, type Problem } from "./api.js";
import { writePlace, type RunFilter } from "./place.js";
import { day } from "./ui.js";

/** A run as GET /v1/history lists it. */
export interface ListedRun {
  id: string;
  workflow?: string;
  agent?: string;
  session?: string;
  owner?: string; // only for admins
  status: string;
  created: string;
  ended?: string;
}

/** The choices of status, and the statuses that the server is asked for. */
export const choices: Record<string, string> = { running: "running,queued,waiting", completed: "completed", failed: "failed,interrupted", canceled: "canceled" };

const lamps: Record<string, string> = { running: "writing", queued: "waiting", waiting: "asks", completed: "done", canceled: "stopped" };

/** The word and the lamp of a status. */
export const statusOf = (status: string): { word: string; lamp: string } => ({ word: status[0]!.toUpperCase() + status.slice(1), lamp: lamps[status] ?? "failed" });

export const goesOn = (run: ListedRun): boolean => run.ended === undefined;

/** The runs that are shown. */
export const page = signal<{ runs: ListedRun[]; next?: string; loading: boolean; failed?: Problem }>({ runs: [], loading: true });

const pageSize = 50;
const mostRuns = 1000; // shown at once

/** The request for a page of runs. */
export function pathOf(filter: RunFilter, limit = pageSize, after?: string): string {
  const query = new URLSearchParams({ limit: String(limit) });
  if (filter.workflow) query.set("workflow", filter.workflow);
  if (filter.agent) query.set("agent", filter.agent);
  const statuses = Object.hasOwn(choices, filter.status ?? "") && choices[filter.status!];
  if (statuses) query.set("status", statuses);
  if (after) query.set("after", after);
  return "/v1/history?" + query;
}

let request = 0; // the newest; answers to the others come too late

/** Loads the newest runs, or with more those behind the ones that are shown. Returns how many came. */
export async function loadRuns(filter: RunFilter, more = false): Promise<number> {
  const mine = ++request;
  const before = page.peek();
  page.value = { ...before, loading: true, failed: undefined };
  try {
    const answer = await ask<{ runs: ListedRun[]; next?: string }>(pathOf(filter, pageSize, more ? before.next : undefined));
    if (mine !== request) return 0;
    const known = more ? before.runs : [];
    const runs = [...known, ...answer.runs.filter((r) => !known.some((k) => k.id === r.id))];
    page.value = { runs, next: runs.length < mostRuns ? answer.next : undefined, loading: false };
    return runs.length - known.length;
  } catch (error) {
    if (mine === request) page.value = { ...before, loading: false, failed: error as Problem };
    return 0;
  }
}

/** Asks how the runs that go on stand. The rows stay where they are; new runs are not added. */
export async function updateRuns(filter: RunFilter): Promise<void> {
  const mine = request;
  const going = page.peek().runs.filter(goesOn);
  if (going.length === 0) return;
  try {
    const { status: _, ...any } = filter;
    const oldest = page.peek().runs.lastIndexOf(going.at(-1)!);
    const { runs } = await ask<{ runs: ListedRun[] }>(pathOf(any, Math.min(200, oldest + pageSize)));
    if (mine !== request) return;
    const now = new Map(runs.map((r) => [r.id, r]));
    page.value = { ...page.peek(), runs: page.peek().runs.map((r) => now.get(r.id) ?? r) };
  } catch {} // the next time, perhaps
}

/** Where the page shows a run; undefined if the server has its workflow or agent no longer. */
export function addressOf(run: ListedRun, has: (kind: "workflow" | "agent", name: string) => boolean): string | undefined {
  if (run.agent && has("agent", run.agent)) return writePlace({ agent: run.agent, session: run.session, runs: [run.id] });
  if (run.workflow && has("workflow", run.workflow)) return writePlace({ workflow: run.workflow, runs: [run.id] });
  return undefined;
}

/** Ms that a run has taken. */
export const elapsedOf = (run: ListedRun, now: number): number => Math.max(0, (run.ended ? Date.parse(run.ended) : now) - Date.parse(run.created));

/** The duration of a full bar: nine of ten runs are no longer, so that one long run does not make the others invisible. */
export function scaleOf(durations: number[]): number {
  const sorted = durations.toSorted((a, b) => a - b);
  return Math.max(1000, sorted[Math.ceil(sorted.length * 0.9) - 1] ?? 0);
}
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const dated = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** When a run began: 14:16 today and yesterday, 27 Nov, 17:40 before. */
export function beganAt(date: string, now = Date.now()): string {
  return (["Today", "Yesterday"].includes(day(date, now)) ? clock : dated).format(Date.parse(date));
}
