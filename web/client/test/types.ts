// What the types promise: this is compiled (npm run check), and never run.
import { attach, run, type Run, type RunEvent } from "@lingserve/client";
import { useRun as useReactRun } from "@lingserve/client/react";
import { useRun as useVueRun } from "@lingserve/client/vue";

interface Article {
  article?: { title?: string; sections?: { title: string }[] };
}

export async function everything(): Promise<string | undefined> {
  const r: Run<Article> = run<Article>("/v1/runs", { workflow: "encyclopedia", input: "Why?" }, { smooth: true, headers: async () => ({}) });
  const off: () => void = r.subscribe("article/*", (value, uri: string, done: boolean) => void [value, uri, done]);
  for await (const e of r) {
    const event: RunEvent = e;
    if ("delta" in event) void (event.uri satisfies string);
    else if ("event" in event) void (event.event satisfies string);
    else void (event.done satisfies true);
  }
  off();
  await r.approve("id");
  await r.approve("id", "deny", { reason: "not today" });
  await r.approve("id", "approve", { remember: "session" });
  // @ts-expect-error there are two decisions
  await r.approve("id", "maybe");
  const document: Article = await r;
  const error: string | undefined = r.error?.code;
  await attach<Article>("/v1/runs", "id").catch((e: unknown) => e);
  const title: string | undefined = useReactRun<Article>("/v1/runs", null).document?.article?.title;
  const same: string | undefined = useVueRun<Article>("/v1/runs", () => null).document.value?.article?.title;
  // @ts-expect-error a request has no such member
  run("/v1/runs", { workflo: "encyclopedia" });
  return document.article?.title ?? title ?? same ?? error ?? r.id;
}
