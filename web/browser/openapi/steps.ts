// What the programs with both clients do and report.
export interface Options {
  url: string;
  key: string;
  fetch: typeof globalThis.fetch;
}

export interface Report {
  workflows: string[];
  run: { status: string; title: unknown; usage: number };
  replayed: boolean;
  events: string[];
  finished: string;
  session: { id: string; agent: string | undefined; entries: number; kinds: string[]; anchor: string };
  sessions: string[];
  fork: number;
  deleted: number;
  problems: string[];
}

/** Fails a program. */
export function fail(step: string, found: unknown): never {
  throw new Error(`${step}: ${JSON.stringify(found)}`);
}

/** The lines of a stream of JSON Lines. */
export async function* lines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (rest + decoder.decode(value, { stream: !done })).split("\n");
    rest = parts.pop() ?? "";
    yield* parts.filter((line) => line !== "");
    if (done) return;
  }
}
