// A program with openapi-fetch and the types that openapi-typescript makes of api/openapi.yaml.
import createClient from "openapi-fetch";
import { fail, lines, type Options, type Report } from "./steps";
import type { components, paths } from "./schema";

type Schemas = components["schemas"];

export async function program({ url, key, fetch }: Options): Promise<Report> {
  const connect = (headers: Record<string, string>) =>
    createClient<paths, "application/json" | "application/problem+json">({ baseUrl: url, fetch, headers });
  const client = connect({ Authorization: `Bearer ${key}` });

  const { data: list } = await client.GET("/v1/workflows");
  const workflows: Schemas["Workflow"][] = list?.workflows ?? fail("workflows", list);

  const start = (question: string) =>
    client.POST("/v1/runs", {
      params: { query: { format: "json" }, header: { "Idempotency-Key": "fetch-1" } },
      body: { workflow: "encyclopedia", input: { question } },
    });
  const { data: run, response: first } = await start("Why is the sky blue?");
  if (!run) return fail("run", first.status);
  const result = run.result as { article?: { title?: string } };
  const usage: Schemas["Usage"][] = Object.values(run.usage);
  const { response: second } = await start("Why is the sky blue?");

  // All events of the run, as JSON Lines.
  const { data: stream } = await client.GET("/v1/runs/{run}/events", {
    params: { path: { run: run.run }, query: { format: "jsonl" } },
    parseAs: "stream",
  });
  const events: string[] = [];
  let finished = "";
  for await (const line of lines(stream ?? fail("events", null))) {
    const event = JSON.parse(line) as Schemas["RunEvent"];
    if ("event" in event) {
      events.push(event.event);
      if (event.event === "finished") finished = (event.data as Schemas["FinishedData"]).status;
    } else if ("delta" in event) {
      events.push("delta");
    }
  }

  // A message to an agent makes a session, whose id may have a slash.
  const id = "fetch/1";
  const { data: said } = await client.POST("/v1/runs", {
    params: { query: { format: "json" } },
    body: { agent: "assistant", session: id, input: "Hello" },
  });
  if (said?.status !== "completed") fail("message", said);
  const { data: anchor } = await client.POST("/v1/sessions/{id}/handoff", { params: { path: { id } }, body: { name: "billing", state: { paid: 2 } } });
  const { data: session } = await client.GET("/v1/sessions/{id}", { params: { path: { id } } });
  const { data: tape } = await client.GET("/v1/sessions/{id}/tape", { params: { path: { id }, query: { limit: 100, format: "json" } } });
  if (!anchor || !session || !tape) return fail("session", { anchor, session, tape });
  const kinds = tape.entries.map((entry: Schemas["Entry"]) => entry.kind);
  const { data: fork, response: forked } = await client.POST("/v1/sessions/{id}/fork", { params: { path: { id } }, body: { session: "fetch/2", at: 1 } });
  if (fork?.id !== "fetch/2") fail("fork", fork);
  const { data: page } = await client.GET("/v1/sessions", { params: { query: { limit: 10 } } });
  const { response: deleted } = await client.DELETE("/v1/sessions/{id}", { params: { path: { id: "fetch/2" } } });

  // Errors are a union of problems, which the code tells apart.
  const problems: string[] = [];
  const { error: invalid } = await client.POST("/v1/runs", { params: { query: { format: "json" } }, body: { workflow: "encyclopedia", input: { question: 7 } } });
  if (invalid?.code === "invalid_request") problems.push(`${invalid.status} ${invalid.code} ${invalid.errors?.[0]?.pointer}`);
  const { error: unknown } = await client.GET("/v1/runs/{run}", { params: { path: { run: "aaaaaaaaaaaaaaaaaaaaaaaaaa" } } });
  if (unknown?.code === "not_found") {
    const status: 404 = unknown.status;
    problems.push(`${status} ${unknown.code}`);
  }
  const { error: ended } = await client.POST("/v1/runs/{run}/cancel", { params: { path: { run: run.run } } });
  if (ended?.code === "conflict") problems.push(`${ended.status satisfies 409} ${ended.code}`);
  const { error: nobody } = await connect({}).GET("/v1/workflows");
  if (nobody?.code === "unauthorized") problems.push(`${nobody.status satisfies 401} ${nobody.code}`);

  return {
    workflows: workflows.map((w) => w.name),
    run: { status: run.status, title: result.article?.title, usage: usage.reduce((sum, u) => sum + u.total_tokens, 0) },
    replayed: second.headers.get("Idempotency-Replayed") === "true",
    events,
    finished,
    session: { id: session.id, agent: session.agent, entries: session.counts.entries, kinds, anchor: anchor.kind },
    sessions: (page?.sessions ?? []).map((s) => s.id),
    fork: forked.status,
    deleted: deleted.status,
    problems,
  };
}

/** What must not compile: each line has an error. */
export function wrong(client: ReturnType<typeof createClient<paths>>) {
  // @ts-expect-error an unknown format
  void client.POST("/v1/runs", { params: { query: { format: "xml" } }, body: { workflow: "chat" } });
  // @ts-expect-error an unknown member
  const body: Schemas["StartRunRequest"] = { workflow: "chat", nonsense: 1 };
  void client.POST("/v1/runs", { body });
  // @ts-expect-error an unknown path
  void client.GET("/v1/nothing");
  // @ts-expect-error a missing decision
  void client.POST("/v1/runs/{run}/approvals/{approval}", { params: { path: { run: "r", approval: "a" } }, body: {} });
}
