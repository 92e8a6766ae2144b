// DP-09: what the types promise. This is compiled (npm run check), and never run.
import { expectTypeOf } from "expect-type";
import {
  attach, run, type AgentRequest, type EventData, type Growing, type JSONValue, type Run, type RunError, type RunRequest, type RunStatus, type Usage, type ValueAt, type WorkflowRequest,
} from "@lingserve/client";
import { useRun as useReactRun } from "@lingserve/client/react";
import { useRun as useVueRun } from "@lingserve/client/vue";

interface Article {
  article: { title: string; level?: 1 | 2; kind: "long" | "short"; sections: { title: string; body: string }[] };
  notes: Record<string, { text: string }>;
}

interface Growth {
  article?: {
    title?: string | null; level?: 1 | 2 | null; kind?: string | null;
    sections?: ({ title?: string | null; body?: string | null } | null)[] | null;
  } | null;
  notes?: Growing<Article["notes"]> | null;
}

const request = { workflow: "encyclopedia", input: "Why?" } satisfies RunRequest;

export function values(r: Run<Article>): void {
  expectTypeOf<ValueAt<Article, "article/title">>().toEqualTypeOf<string>();
  expectTypeOf<ValueAt<Article, "article/level">>().toEqualTypeOf<1 | 2>();
  expectTypeOf<ValueAt<Article, "article/sections/*/body">>().toEqualTypeOf<string>();
  expectTypeOf<ValueAt<Article, "article/sections/0">>().toEqualTypeOf<{ title: string; body: string }>();
  expectTypeOf<ValueAt<Article, "notes/any/text">>().toEqualTypeOf<string>();
  expectTypeOf<ValueAt<Article, "notes/*/text">>().toEqualTypeOf<string>();
  expectTypeOf<ValueAt<Article, "">>().toEqualTypeOf<Article>();
  expectTypeOf<ValueAt<Article, "**/title">>().toEqualTypeOf<JSONValue>();
  expectTypeOf<ValueAt<Article, "article/$tools/0">>().toEqualTypeOf<JSONValue>();
  expectTypeOf<ValueAt<Article, string>>().toEqualTypeOf<JSONValue>();
  expectTypeOf<ValueAt<JSONValue, "a/b">>().toEqualTypeOf<JSONValue>();
  expectTypeOf<ValueAt<Article, "article/titel">>().toBeNever();
  expectTypeOf<ValueAt<{ a: 1 } | { b: 2 }, "a">>().toEqualTypeOf<1>();

  const off = r.subscribe("article/sections/*/title", (value, uri, done) => {
    expectTypeOf(value).toEqualTypeOf<string | null>();
    expectTypeOf(uri).toEqualTypeOf<string>();
    expectTypeOf(done).toEqualTypeOf<boolean>();
  });
  expectTypeOf(off).toEqualTypeOf<() => void>();
  r.subscribe("", (value) => expectTypeOf(value).branded.toEqualTypeOf<Growth | null>());
  r.subscribe("**", (value) => expectTypeOf(value).toEqualTypeOf<JSONValue>());
  r.subscribe(String(1), (value) => expectTypeOf(value).toEqualTypeOf<JSONValue>());
  // @ts-expect-error there is no such place in the document
  r.subscribe("article/titel", () => {});
  // @ts-expect-error an array has no such key
  r.subscribe("article/sections/first", () => {});
}

export async function documents(): Promise<void> {
  const r = run<Article>("/v1/runs", request, { smooth: true, headers: async () => ({}) });
  expectTypeOf(r).toEqualTypeOf<Run<Article>>();
  expectTypeOf(r.document).branded.toEqualTypeOf<Growth>();
  expectTypeOf(r.reserved).toEqualTypeOf<Readonly<Record<string, JSONValue>>>();
  expectTypeOf(r.status).toEqualTypeOf<RunStatus>();
  expectTypeOf(r.error).toEqualTypeOf<RunError | undefined>();
  expectTypeOf(await r).toEqualTypeOf<Article>();
  expectTypeOf(await attach<Article>("/v1/runs", "id")).toEqualTypeOf<Article>();
  expectTypeOf(await run("/v1/runs", request)).toEqualTypeOf<JSONValue>(); // and not any
  expectTypeOf<Growing<JSONValue>>().toEqualTypeOf<JSONValue>();
  expectTypeOf<Growing<Article["notes"]>["any"]>().toEqualTypeOf<{ text?: string | null } | null | undefined>();
  expectTypeOf<Growing<string>>().toEqualTypeOf<string>();

  await r.approve("id");
  await r.approve("id", "deny", { reason: "not today" });
  await r.approve("id", "approve", { remember: "session" });
  // @ts-expect-error there are two decisions
  await r.approve("id", "maybe");
}

export async function events(): Promise<void> {
  for await (const e of run("/v1/runs", request)) {
    if ("delta" in e) expectTypeOf(e.delta).toEqualTypeOf<JSONValue>();
    else if ("done" in e) expectTypeOf(e.done).toEqualTypeOf<true>();
    else if (e.event === "approval_required") expectTypeOf(e.data).toEqualTypeOf<EventData["approval_required"]>();
    else if (e.event === "finished") expectTypeOf(e.data.status).toEqualTypeOf<"completed" | "failed" | "interrupted">();
    else if (e.event === "restarted") expectTypeOf(e.data.parts).toEqualTypeOf<string[]>();
    else if (e.event === "usage") expectTypeOf(e.data).toExtend<{ bot: string; model: string } & Partial<Usage>>();
    else if (e.event === "error") expectTypeOf(e.data.retryable).toEqualTypeOf<boolean>();
    // @ts-expect-error the server has no event of this name
    else if (e.event === "outline-ready") void e;
  }
  for await (const e of run<Article, { event: "outline-ready"; data: { title: string } }>("/v1/runs", request)) {
    if ("event" in e && e.event === "outline-ready") expectTypeOf(e.data).toEqualTypeOf<{ title: string }>();
  }
}

export function requests(): void {
  expectTypeOf<RunRequest>().toEqualTypeOf<WorkflowRequest | AgentRequest>();
  run("/v1/runs", { agent: "assistant", session: "s", input: "Hello", on_busy: "steer", files: [{ type: "file", file_id: "file_a" }] });
  run("/v1/runs", { agent: "assistant", input: [{ type: "text", text: "look" }, { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }] });
  run("/v1/runs", { workflow: { name: "w" }, model: ["demo:a", "demo:b"], options: { temperature: 1, reasoning: { effort: "low" } } });
  // @ts-expect-error a request is for an agent or for a workflow
  run("/v1/runs", { agent: "assistant", workflow: "encyclopedia" });
  // @ts-expect-error it is for one of them
  run("/v1/runs", { input: "Hello" });
  // @ts-expect-error an agent has its model
  run("/v1/runs", { agent: "assistant", model: "demo:demo" });
  // @ts-expect-error a request has no such member
  run("/v1/runs", { workflo: "encyclopedia" });
  // @ts-expect-error there is no such part
  run("/v1/runs", { agent: "assistant", files: [{ type: "film" }] });
}

// DP-10: a run's id in place of a request, and restart.
export function hooks(): void {
  const react = useReactRun<Article>("/v1/runs", null);
  expectTypeOf(react.document).branded.toEqualTypeOf<Growth | undefined>();
  expectTypeOf(react.run).toEqualTypeOf<Run<Article> | undefined>();
  expectTypeOf(react.status).toEqualTypeOf<RunStatus | "idle">();
  expectTypeOf(react.restart).toEqualTypeOf<() => void>();
  const vue = useVueRun<Article>("/v1/runs", () => ({ run: "id" }));
  expectTypeOf(vue.document.value).branded.toEqualTypeOf<Growth | undefined>();
  expectTypeOf(vue.restart).toEqualTypeOf<() => void>();
  useReactRun("/v1/runs", { run: "id" });
  useReactRun("/v1/runs", request, { EventSource });
  useVueRun("/v1/runs", request);
  // @ts-expect-error a run that was started has its workflow
  useReactRun("/v1/runs", { run: "id", workflow: "encyclopedia" });
}
