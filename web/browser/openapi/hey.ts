// A program with the client that @hey-api/openapi-ts makes of api/openapi.yaml.
import { createClient, createConfig } from "./hey/client";
import {
  cancelRun, createAnchor, createTicket, deleteFile, deleteSession, forkSession, getFileContent, getHealth, getRun, getSession, listAgents, listModels,
  listSessions, listWorkflows, readTape, startRun, uploadFile,
} from "./hey/sdk.gen";
import type { DeltaEvent, Entry, FinishedData, ReadRunEventsErrors, RunDocument, StartRunErrors, Usage } from "./hey/types.gen";
import { fail, type Options, type Report } from "./steps";

export async function program({ url, key, fetch }: Options): Promise<Report> {
  const client = createClient(createConfig({ baseUrl: url, fetch, auth: key }));

  const { data: list } = await listWorkflows({ client });
  const { data: health } = await getHealth({ client });
  const { data: agents } = await listAgents({ client });
  const { data: models } = await listModels({ client });
  if (health?.status !== "ok" || !agents?.agents.some((a) => a.name === "assistant") || !models?.data.some((m) => m.owned_by === "demo")) {
    fail("catalogue", { health, agents, models });
  }

  const start = (question: string) =>
    startRun({ client, query: { format: "json" }, headers: { "Idempotency-Key": "hey-1" }, body: { workflow: "encyclopedia", input: { question } } });
  const { data: document, response: first } = await start("Why is the sky blue?");
  if (!document) return fail("run", first?.status);
  const run: RunDocument = document;
  const result = run.result as { article?: { title?: string } };
  const usage: Usage[] = Object.values(run.usage);
  const { response: second } = await start("Why is the sky blue?");

  // All events of the run, as Server-Sent Events.
  const events: string[] = [];
  let finished = "";
  const { stream } = await client.sse.get<DeltaEvent | FinishedData, ReadRunEventsErrors>({
    url: "/v1/runs/{run}/events",
    path: { run: run.run },
    security: [{ scheme: "bearer", type: "http" }],
    sseMaxRetryAttempts: 1,
    onSseEvent: ({ event, data }) => {
      events.push(event ?? "delta");
      if (event === "finished") finished = (data as FinishedData).status;
    },
  });
  for await (const _ of stream) if (finished !== "") break;

  // A message to an agent makes a session, whose id may have a slash.
  const path = { id: "hey/1" };
  const { data: said } = await startRun({ client, query: { format: "json" }, body: { agent: "assistant", session: path.id, input: "Hello", on_busy: "reject" } });
  if (said?.status !== "completed") fail("message", said);
  const { data: anchor } = await createAnchor({ client, path, body: { name: "billing", state: { paid: 2 } } });
  const { data: session } = await getSession({ client, path });
  const { data: tape } = await readTape({ client, path, query: { limit: 100, format: "json" } });
  if (!anchor || !session || !tape) return fail("session", { anchor, session, tape });
  const kinds = tape.entries.map((entry: Entry) => entry.kind);
  const { data: fork, response: forked } = await forkSession({ client, path, body: { session: "hey/2", at: 1 } });
  if (fork?.id !== "hey/2") fail("fork", fork);
  const { data: page } = await listSessions({ client, query: { limit: 10 } });
  const { response: deleted } = await deleteSession({ client, path: { id: "hey/2" } });

  // A file is a form with a Blob, and comes back as one.
  const { data: file } = await uploadFile({ client, body: { file: new File(["some text"], "a.txt") } });
  if (!file) return fail("upload", file);
  const { data: content } = await getFileContent({ client, path: { id: file.id }, parseAs: "text" });
  const { data: gone } = await deleteFile({ client, path: { id: file.id } });
  if (file.filename !== "a.txt" || String(content) !== "some text" || !gone?.deleted) fail("file", { file, content, gone });

  // A ticket replaces the key for one GET.
  const { data: ticket } = await createTicket({ client, body: { path: `/v1/runs/${run.run}` } });
  const stranger = createClient(createConfig({ baseUrl: url, fetch }));
  const { data: once } = await getRun({ client: stranger, path: { run: run.run }, query: { ticket: ticket?.ticket ?? fail("ticket", ticket) } });
  if (once?.run !== run.run) fail("ticket", once);

  // Errors are a union of problems, which the code tells apart.
  const problems: string[] = [];
  const { error: invalid } = await startRun({ client, query: { format: "json" }, body: { workflow: "encyclopedia", input: { question: 7 } } });
  if (invalid?.code === "invalid_request" && invalid.status === 400) {
    const bad: StartRunErrors[400] = invalid;
    problems.push(`${bad.status} ${bad.code} ${bad.errors?.[0]?.pointer}`);
  }
  const { error: unknown } = await getRun({ client, path: { run: "aaaaaaaaaaaaaaaaaaaaaaaaaa" } });
  if (unknown?.code === "not_found") problems.push(`${unknown.status satisfies 404} ${unknown.code}`);
  const { error: ended } = await cancelRun({ client, path: { run: run.run } });
  if (ended?.code === "conflict") problems.push(`${ended.status satisfies 409} ${ended.code}`);
  const { error: nobody } = await listWorkflows({ client: stranger });
  if (nobody?.code === "unauthorized") problems.push(`${nobody.status satisfies 401} ${nobody.code}`);

  return {
    workflows: (list?.workflows ?? fail("workflows", list)).map((w) => w.name),
    run: { status: run.status, title: result.article?.title, usage: usage.reduce((sum, u) => sum + u.total_tokens, 0) },
    replayed: second?.headers.get("Idempotency-Replayed") === "true",
    events,
    finished,
    session: { id: session.id, agent: session.agent, entries: session.counts.entries, kinds, anchor: anchor.kind },
    sessions: (page?.sessions ?? []).map((s) => s.id),
    fork: forked?.status ?? 0,
    deleted: deleted?.status ?? 0,
    problems,
  };
}

/** What must not compile: each line has an error. */
export function wrong() {
  // @ts-expect-error an unknown format
  void startRun({ query: { format: "xml" }, body: { workflow: "chat" } });
  // @ts-expect-error an unknown member
  void startRun({ body: { workflow: "chat", nonsense: 1 } });
  // @ts-expect-error a missing id
  void getRun({ path: {} });
}
