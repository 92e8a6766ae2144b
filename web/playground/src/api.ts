// What the server tells that is no run: JSON, and problem documents where it does not.

export interface Graph {
  bots: { name: string; root: string; format: string; model?: string; on?: Trigger; after?: string[] }[];
  events?: { name: string; on: Trigger }[];
}

export type Trigger = Partial<Record<"string" | "object" | "value" | "done" | "error", string>>;

export interface Workflow {
  name: string;
  description?: string;
  model?: string;
  input: any; // JSON Schema
  graph?: Graph;
}

export interface Agent {
  name: string;
  default?: boolean;
  workflow?: string;
}

export interface Model {
  id: string;
  owned_by: string;
  default?: boolean;
}

export interface Session {
  id: string;
  title: string;
  updated: string;
  counts: { entries: number; anchors: number };
}

export interface Entry {
  id: number;
  kind: string;
  payload: any;
  meta: { turn?: string; [name: string]: unknown };
  date: string;
}

export interface Misfit {
  pointer?: string;
  parameter?: string;
  header?: string;
  detail: string;
}

/** Why the server did not do what it was asked for; `unreachable` where it did not answer at all. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status = 0,
    readonly errors: Misfit[] = [],
    readonly retryAfter?: number,
    readonly id?: string,
  ) {
    super(message);
  }
}

/** Asks the server; a body is posted as JSON. Returns the parsed answer, undefined where it has none. Throws a {@link Problem}. */
export async function ask<T>(path: string, body?: unknown, method = body === undefined ? "GET" : "POST", headers: Record<string, string> = {}): Promise<T> {
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(path, {
      method,
      headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await answer.text();
  } catch {
    throw new Problem("unreachable", "the server cannot be reached");
  }
  let value: any;
  try {
    value = text === "" ? undefined : JSON.parse(text);
  } catch {
    // A proxy's page, say.
  }
  if (!answer.ok) {
    throw new Problem(
      value?.code ?? (answer.status >= 500 ? "unreachable" : "protocol"),
      value?.detail ?? `the server answered with status ${answer.status}`,
      answer.status,
      value?.errors,
      Number(answer.headers.get("Retry-After")) || undefined,
      value?.id,
    );
  }
  return value as T;
}
