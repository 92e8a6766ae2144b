// What a run looks like wherever it is shown: how it stands, what went wrong, what it asks, what stands beside its document.

import { useEffect, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { formatURI, parseURI } from "../../client/src/index.js";
import { FailureBox, sentence, type Failure } from "./failure.js";
import { Made, madeOf } from "./files.js";
import { HTML, Source } from "./html.js";
import type { Live } from "./live.js";
import { Approval } from "./parts/approval.js";
import { Markdown } from "./parts/markdown.js";
import { Reading, type Writer } from "./parts/reading.js";
import { marked } from "./parts/text.js";
import { DocumentTree } from "./parts/tree.js";
import { reconnect } from "./store.js";
import { count, duration, Lamp, useTick } from "./ui.js";

/** How a run stands, in one word and one class. */
export function standing(live: Live): { word: string; lamp: string } {
  if (live.over) {
    switch (live.run.status) {
      case "completed": return { word: "Completed", lamp: "done" };
      case "canceled": return { word: "Canceled", lamp: "waiting" };
      case "interrupted": return { word: "Interrupted", lamp: "failed" };
      case "lost": return live.resumed && live.count === 0 ? { word: "Not found", lamp: "failed" } : { word: live.run.error?.code === "closed" ? "Not followed" : live.id ? "Lost" : "Not started", lamp: "failed" };
      default: return { word: "Failed", lamp: "failed" };
    }
  }
  if (live.disconnected) return { word: "Disconnected", lamp: "asks" };
  if (live.questions.length > 0) return { word: "Needs your approval", lamp: "asks" };
  if (live.position) {
    const place = `${live.position === 1 ? "next" : `number ${live.position}`} in the ${live.waitsFor === "slot" ? "queue" : "session"}`;
    return { word: `Waits, ${place}${live.expected ? `, about ${live.expected} s` : ""}`, lamp: "waiting" };
  }
  if (live.count === 0) return { word: live.resumed ? "Reconnecting" : "Starting", lamp: "waiting" };
  return { word: "Writing", lamp: "writing" };
}

/** The line above an answer: how its run stands, and what can be done with it. */
export function RunBar({ live, children }: { live: Live; children?: ComponentChildren }) {
  live.revision.value;
  const { word, lamp } = standing(live);
  return (
    <div class="run-bar">
      <span class="run-state"><Lamp state={lamp} /> {word}</span>
      {live.reason && !/^canceled/.test(live.reason) && <span class="quiet">{live.reason}</span>}
      <span class="grow" />
      {children}
    </div>
  );
}

/** Why it is not followed at the moment, and when it is tried again. */
export function Waiting({ live }: { live: Live }) {
  const { state, until, failed } = live.connection.value;
  const now = useTick(250, state === "waiting");
  live.revision.value;
  if (!live.disconnected) return null;
  const left = Math.max(0, Math.ceil(((until ?? now) - now) / 1000));
  return (
    <div class="notice notice-sticky" role="status">
      <Lamp state="asks" />
      <span>{failed === 0 || (failed === 1 && state === "connecting") ? "The connection broke." : "The server cannot be reached."} {live.count > 0 && "The run may continue without this page. "}{state === "waiting" && left > 0 ? <>Retrying in {left} s.</> : <>Retrying …</>}</span>
      {live.id && <button type="button" class="button small" onClick={() => reconnect(live)}>Retry now</button>}
    </div>
  );
}

/** For how many ms the news that the run goes on stays in sight while the text is scrolled. */
const news = 15_000;

/** Says that the run goes on after its server was lost, and how much of it is written again. */
export function Restarted({ live }: { live: Live }) {
  live.revision.value;
  const until = (live.restarted?.at ?? 0) + news;
  const isNew = useTick(1000, Date.now() < until) < until;
  if (!live.restarted || live.over || live.disconnected) return null;
  const parts = live.restarted.parts.filter((uri) => !/(^|\/)\$/.test(uri));
  const again = parts.includes("") ? "; what was not complete is written again" : parts.length === 1 ? "; 1 part is written again" : parts.length > 1 ? `; ${count(parts.length)} parts are written again` : "";
  return <p class={"notice notice-quiet" + (isNew ? " notice-sticky" : "")} role="status">The server restarted. The run continues{again}.</p>;
}

/** What of a failed run is to be said. */
export function RunFailure({ live, again, hideFields = false }: { live: Live; again?: () => void; hideFields?: boolean }) {
  live.revision.value;
  const error = live.run.error as Failure | undefined;
  // A server that was killed keeps nothing of its runs; that it was is what one wants to know.
  const code = live.run.status === "interrupted" ? "interrupted" : error?.code;
  // What ended the run is said once, also where a bot has said it before.
  // So is a call that somebody denied: the call says it.
  const harmless = live.errors.filter((e) => !e.fatal && !(error && e.code === error.code && e.message === error.message) && !(live.denied.size > 0 && /was not allowed to run/.test(e.message)));
  const bot = live.errors.findLast((e) => error && e.code === error.code && e.message === error.message)?.bot;
  if (live.over && error && error.code !== "closed" && live.run.status !== "canceled") {
    const beside = hideFields ? error.errors?.filter((e) => !e.pointer) : error.errors;
    return (
      <FailureBox
        failure={{ code: code!, message: hideFields && error.errors?.length && !beside?.length ? "Check the marked fields" : error.message, bot, status: error.status, retryAfter: error.retryAfter, id: error.id }}
        again={code !== undefined && ["gone", "not_found"].includes(code) ? undefined : again}
      >
        {code === "interrupted" && live.reached && <p>The output so far is kept.</p>}
        {beside && beside.length > 1 && <ul>{beside.map((e, i) => <li key={i}><code>{e.pointer ?? e.parameter ?? e.header}</code> {e.detail}</li>)}</ul>}
        {harmless.length > 0 && <Slips errors={harmless} />}
      </FailureBox>
    );
  }
  return harmless.length > 0 ? <div class="notice notice-quiet"><Slips errors={harmless} /></div> : null;
}

// Errors that a run has gone on after.
function Slips({ errors }: { errors: any[] }) {
  return (
    <ul class="slips">
      {errors.slice(-5).map((e, i) => (
        <li key={i}><code class="code">{e.code}</code> {sentence(e.message)} {e.bot && <span class="quiet">({e.bot})</span>}</li>
      ))}
    </ul>
  );
}

/** The calls of tools that wait for a decision. */
export function Questions({ live }: { live: Live }) {
  live.revision.value;
  return live.questions.map((q) => <Approval key={q.id} run={live.run} question={q} onDone={() => live.answered(q.id)} />);
}

/** Something that was called, and what came of it. */
export interface Call {
  id?: string;
  name: string;
  arguments: unknown;
  result?: unknown; // undefined: none yet
  failed?: boolean;
  why?: string; // it has failed, where that is known
}

/** The calls that stand at a reserved uri and below. */
export function callsOf(live: Live, at = ""): Call[] {
  const reserved: Readonly<Record<string, any>> = live.run.reserved;
  const prefix = at === "" ? "" : at + "/";
  const tools = reserved[prefix + "$tools"] ?? {};
  const results = reserved[prefix + "$tool_results"] ?? {};
  return Object.keys(tools).map((key) => ({
    id: tools[key]?.id,
    name: tools[key]?.name ?? "a tool",
    arguments: tools[key]?.arguments,
    result: Object.hasOwn(results, key) ? results[key] : undefined,
    failed: Object.hasOwn(results, key) && results[key] === null,
    why: live.denied.get(tools[key]?.id),
  }));
}

/** What a model thought, folded. */
export function Thoughts({ text, of, growing }: { text: string; of?: string; growing: boolean }) {
  return (
    <details class="fold">
      <summary>
        <Lamp state={growing ? "writing" : "done"} />
        <span>{growing ? "Thinking" : "Reasoning"}{of && <> of <code>{of}</code></>}</span>
        <span class="fold-hint" dir="auto">{marked(text.slice(-120)).replace(/\s+/g, " ")}</span>
      </summary>
      <div class="fold-body"><Markdown text={text} growing={growing} level={3} /></div>
    </details>
  );
}

/** A call of a tool, folded. */
export function ToolCall({ call, over, asks = false }: { call: Call; over: boolean; asks?: boolean }) {
  const waits = call.result === undefined && !over;
  return (
    <details class="fold">
      <summary>
        <Lamp state={call.failed ? "failed" : asks ? "asks" : waits ? "writing" : "done"} />
        <span>Tool <code>{call.name}</code></span>
        <span class="fold-hint">{asks ? "needs your approval" : waits ? "runs" : call.failed ? call.why ?? "failed, or was not allowed to run" : brief(call.result ?? "no result")}</span>
      </summary>
      <div class="fold-body">
        <p class="caps">Arguments</p>
        <pre class="well" tabIndex={0}>{pretty(call.arguments)}</pre>
        {call.result !== undefined && <><p class="caps">Result</p><pre class="well" tabIndex={0}>{pretty(call.result)}</pre></>}
      </div>
    </details>
  );
}

function brief(value: unknown): string {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return marked(text.length > 120 ? text.slice(0, 120) + "…" : text);
}

export function pretty(value: unknown): string {
  let parsed = value;
  if (typeof value === "string" && /^\s*[[{]/.test(value)) {
    try {
      parsed = JSON.parse(value);
    } catch {} // half of it, perhaps
  }
  const text = typeof parsed === "string" ? parsed : JSON.stringify(parsed, null, 2) ?? "";
  return marked(text.length > 50_000 ? text.slice(0, 50_000) + "\n…" : text);
}

// What is in the document at a uri; undefined where nothing is.
function valueAt(document: unknown, uri: string): unknown {
  let value = document;
  for (const key of parseURI(uri)) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** Thoughts and calls of a workflow's bots, which stand beside the document. */
export function Beside({ live }: { live: Live }) {
  live.revision.value;
  const reserved = live.run.reserved;
  const parts: ComponentChildren[] = [];
  for (const uri of Object.keys(reserved)) {
    const cut = uri.lastIndexOf("/");
    const at = cut < 0 ? "" : uri.slice(0, cut);
    const name = uri.slice(cut + 1);
    const of = at || undefined;
    if (name === "$reasoning_context") parts.push(<Thoughts key={uri} text={String(reserved[uri])} of={of} growing={!live.over && !live.done(uri) && valueAt(live.run.document, at) === undefined} />);
    else if (name === "$tools") parts.push(...callsOf(live, at).map((call, i) => <ToolCall key={uri + i} call={call} over={live.over} asks={live.asks(call)} />));
  }
  if (madeOf(live, "$citations").length + madeOf(live, "$media").length > 0) parts.push(<Made key="$made" live={live} />);
  if (parts.length === 0) return null;
  return <section class="beside" aria-label="Beside the document"><h2 class="side-title">Beside the document</h2>{parts}</section>;
}

/** What the value around a place calls itself, or else its name and number. */
export function titleAt(live: Live, uri: string): string {
  const keys = parseURI(uri);
  for (let n = keys.length; n > 0; n--) {
    const value = valueAt(live.run.document, formatURI(keys.slice(0, n))) as any;
    for (const key of ["title", "heading", "name"]) if (typeof value === "object" && value !== null && typeof value[key] === "string" && value[key] !== "") return value[key].slice(0, 120);
    if (/^\d+$/.test(keys[n - 1]!)) return `${keys[n - 2] ?? ""} ${Number(keys[n - 1]) + 1}`.trim();
  }
  return uri || "the document";
}

/** The views of a document. */
export type View = "reading" | "tree" | "json";

/** The document of a run. HTML that a bot has written is a preview to be read, and its source in the tree. */
export function Document({ live, view = "reading" }: { live: Live; view?: "reading" | "tree" }) {
  live.revision.value;
  const html = (text: string, uri: string, done: boolean): ComponentChildren => {
    if (live.bots.formatAt(uri) !== "html") return undefined;
    return view === "tree" ? <Source text={text} done={done} /> : <HTML text={text} done={done} />;
  };
  if (view === "tree") return <DocumentTree value={live.run.document} done={live.done} onText={html} />;
  return <Reading value={live.run.document} done={live.done} onText={html} prose={(uri) => live.bots.beginsAt(uri)} writer={(uri) => writerAt(live, uri)} />;
}

// Who writes the block at a uri, for the margin beside it.
function writerAt(live: Live, uri: string): Writer | undefined {
  const block = live.bots.blockAt(uri);
  if (!block) return undefined;
  const { name, several, start } = block;
  const number = /(?:^|\/)(\d+)$/.exec(uri)?.[1];
  const time = start.began !== undefined && start.ended !== undefined ? `, ${duration(start.ended - start.began)}` : "";
  return {
    name: several && number ? `${name} ${Number(number) + 1}` : name,
    writing: start.state === "writing" && !live.over,
    title: `Written by the bot ${name}${time}`,
    sticky: several || typeof valueAt(live.run.document, uri) === "string",
  };
}

/** Says to screen readers what has become of a run: when it begins, when it asks, when it ends. */
export function Announcer({ live }: { live: Live | undefined }) {
  const [text, say] = useState("");
  live?.revision.value;
  const state = live ? standing(live).word : "";
  const tool = live?.questions[0]?.tool;
  useEffect(() => {
    if (!live) return say("");
    if (tool) say(`The tool ${tool} waits for your approval.`);
    else if (live.over && live.ended) say(`${state} after ${duration(live.elapsed())}.`);
    else say(state + ".");
  }, [live, state, tool]);
  return <p class="sr" role="status" aria-live="polite">{text}</p>;
}
