// An agent: what was said, and what is being said.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import type { Agent, Problem } from "./api.js";
import { Bar } from "./bar.js";
import { useCancel } from "./cancel.js";
import { FailureBox, sentence, type Failure } from "./failure.js";
import { FileChips, Made, useFiles } from "./files.js";
import { Follower, scrollerOf } from "./follow.js";
import type { Live } from "./live.js";
import { MoreOptions, noChoices, requestOf, type Choices } from "./options.js";
import { ShortId } from "./parts/copy.js";
import { Markdown } from "./parts/markdown.js";
import { memo, shallow } from "./parts/memo.js";
import { Reading } from "./parts/reading.js";
import { marked } from "./parts/text.js";
import { callsOf, Document, Questions, Restarted, RunBar, RunFailure, standing, Thoughts, ToolCall, Waiting } from "./run.js";
import { chosen, live, lives, loadPast, past, place, say } from "./store.js";
import { readTurns, type Anchor, type Turn } from "./turns.js";
import { count, duration, money, useTick } from "./ui.js";
import { exampleOf, draft, shortcut, stay } from "./workflow.js";
import { SchemaForm } from "./parts/schema-form.js";
import { withoutBlankRows } from "./parts/schema/fields.js";
import { described } from "./store.js";

const drafts = new Map<string, Choices>();

export function Conversation({ agent }: { agent: Agent }) {
  const { session } = place.value;
  const page = useRef<HTMLDivElement>(null);
  useEffect(() => {
    past.value = undefined;
    if (session && !lives.peek().some((l) => l.started?.session === session && !l.resumed)) void loadPast(session);
  }, [session]);
  const following = lives.value;
  const before = past.value && past.value.session === session ? past.value : undefined;
  const turns = useMemo(() => {
    const known = new Set(following.map((l) => l.id));
    return readTurns(before?.entries ?? []).filter((t) => !known.has(t.id));
  }, [before, following, following.map((l) => l.id).join()]);
  useStick(page, following, turns.length + following.length > 0);
  const first = following.find((l) => !l.over); // the one that is being answered; the others wait
  for (const l of following) l.revision.value;
  const nothing = turns.length === 0 && following.length === 0;
  return (
    <>
      <Bar name={agent.name} about={session && <span class="bar-session">Session <ShortId id={session} what="the session’s id" /></span>} />
      <main id="main" tabIndex={-1}>
        <div class="work talk">
          <div class="talk-turns" ref={page} role="log" aria-label="Conversation" aria-live="off" tabIndex={0}>
            {before?.failed && <p class="notice" role="alert">What was said before could not be read: {before.failed}</p>}
            {before && before.from > 0 && <button type="button" class="button small" onClick={() => void loadPast(before.session, before)}>Earlier</button>}
            {nothing && (!session || before) && <NothingSaid agent={agent} />}
            {turns.map((t) => ("anchor" in t ? <AnchorLine key={t.id} anchor={t} /> : <PastTurn key={t.id} turn={t} agent={agent.name} />))}
            {following.map((l, i) => <LiveTurn key={l.id ?? i} live={l} agent={agent.name} several={following.length > 1} />)}
          </div>
          <Composer key={agent.name} agent={agent} running={first !== undefined} />
        </div>
      </main>
    </>
  );
}

// Keeps the end of what is said in sight while it grows, until the reader goes up. Where there is little room, it is the page that
// scrolls.
function useStick(box: { current: HTMLDivElement | null }, following: Live[], something: boolean): void {
  const follower = useRef(new Follower());
  const scroller = (): HTMLElement => (getComputedStyle(box.current!).overflowY === "visible" ? scrollerOf(box.current!) : box.current!);
  useEffect(() => {
    const scrolled = (): void => {
      if (!box.current) return;
      const el = scroller();
      follower.current.scrolled(el, el.scrollHeight - el.scrollTop - el.clientHeight < 80);
    };
    addEventListener("scroll", scrolled, { passive: true, capture: true });
    return () => removeEventListener("scroll", scrolled, { capture: true });
  }, []);
  useEffect(() => {
    follower.current.following = true;
  }, [following.length]);
  useLayoutEffect(() => {
    const el = scroller();
    if (follower.current.following && something) el.scrollTop = el.scrollHeight;
    follower.current.note(el);
  });
}

function NothingSaid({ agent }: { agent: Agent }) {
  return (
    <div class="empty empty-document">
      <p class="empty-lead">Write a message to {agent.name}.</p>
      {agent.workflow && <p>The workflow <a href={"#workflow=" + encodeURIComponent(agent.workflow)}>{agent.workflow}</a> answers each message.</p>}
      <ol>
        <li>The session remembers the conversation: all messages are on its tape.</li>
        {!agent.workflow && <li>A message that begins with a comma is a command: <code>,help</code> lists all commands, <code>,tools</code> the tools of the agent.</li>}
        {!agent.workflow && <li>If a tool needs your approval, the run waits and asks you here.</li>}
      </ol>
    </div>
  );
}

function AnchorLine({ anchor }: { anchor: Anchor }) {
  const state = anchor.state as any;
  const summary = typeof state?.summary === "string" ? state.summary : undefined;
  return (
    <div class="anchor">
      <span>Anchor <code>{anchor.anchor}</code></span>
      {summary && (
        <details class="fold">
          <summary><span>Summary</span><span class="fold-hint" dir="auto">{marked(summary.slice(0, 120)).replace(/\s+/g, " ")}</span></summary>
          <div class="fold-body"><Markdown text={summary} level={3} /></div>
        </details>
      )}
    </div>
  );
}

function Said({ text }: { text: string }) {
  return <div class="said"><p dir="auto">{marked(text)}</p></div>;
}

// A long conversation is rendered once, and not whenever something is added at its end.
const PastTurn = memo(({ turn, agent }: { turn: Turn; agent: string }) => {
  return (
    <article class="turn" aria-label={`Turn: ${(turn.said[0] ?? turn.media.join(", ")).slice(0, 80)}`}>
      {turn.said.map((text, i) => <Said key={i} text={text} />)}
      {turn.media.length > 0 && <p class="quiet said-files">With {marked(turn.media.join(", "))}</p>}
      {turn.parts.length > 0 && <p class="turn-who"><code>{agent}</code></p>}
      {turn.parts.map((p, i) =>
        p.kind === "text" ? <Answer key={i} text={p.text} />
        : p.kind === "thoughts" ? <Thoughts key={i} text={p.text} growing={false} />
        : p.kind === "call" ? <ToolCall key={i} call={p.call} over />
        : <p key={i} class="notice">{p.text}</p>)}
      {turn.cut && <p class="quiet">This turn has ended early: {turn.cut}.</p>}
      <p class="turn-foot">
        <time dateTime={turn.date}>{new Date(turn.date).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}</time>
        {turn.took !== undefined && <span>{turn.cut ? "Ended after" : "Completed in"} {duration(turn.took)}</span>}
        {turn.tokens > 0 && <span>{count(turn.tokens)} tokens</span>}
        {turn.cost > 0 && <span>{money(turn.cost)}</span>}
      </p>
    </article>
  );
}, shallow);

// The answer of an agent that a workflow answers for may be a document, of which the tape has the JSON.
function Answer({ text }: { text: string }) {
  const value = useMemo(() => {
    if (!/^\s*[{[]/.test(text)) return undefined;
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  }, [text]);
  return typeof value === "object" && value !== null ? <Reading value={value} done={() => true} /> : <Markdown text={text} level={2} />;
}

interface LiveTurnProps {
  live: Live;
  agent: string;
  several: boolean;
}

const LiveTurn = memo((p: LiveTurnProps) => <LiveTurnOf {...p} />, shallow);

function LiveTurnOf({ live: l, agent, several }: LiveTurnProps) {
  l.revision.value;
  const cancel = useCancel(l);
  const { reserved, document } = l.run;
  const said = l.request?.input;
  const thoughts = reserved.$reasoning_context;
  const calls = callsOf(l);
  const text = typeof document === "string" ? document : undefined;
  const grown = text === undefined && typeof document === "object" && document !== null && Object.keys(document).length > 0;
  const shown = live.value === l;
  const ended = l.over && l.run.status === "completed";
  return (
    <article class="turn" aria-label={`Turn: ${typeof said === "string" ? said.slice(0, 80) : l.id ?? ""}`}>
      {said !== undefined && <Said text={typeof said === "string" ? said : plainInput(said)} />}
      {l.request?.files && <p class="quiet said-files">{l.request.files.length === 1 ? "With a file" : `With ${l.request.files.length} files`}</p>}
      {l.steered.map((s, i) => <Said key={i} text={s} />)}
      {ended ? <p class="turn-who"><code>{agent}</code></p> : <RunBar live={l}>
        {!l.over && <button type="button" class="button small danger" onClick={cancel.now} disabled={cancel.busy}>Cancel</button>}
      </RunBar>}
      <Waiting live={l} />
      <Restarted live={l} />
      {cancel.failed && <p class="notice" role="alert">{cancel.failed}</p>}
      {thoughts && <Thoughts text={String(thoughts)} growing={!l.over && !text} />}
      {calls.map((c, i) => <ToolCall key={i} call={c} over={l.over} asks={l.asks(c)} />)}
      <Questions live={l} />
      {text && <div class={l.over ? "" : "tree-writing"}><Markdown text={text} growing={!l.over} level={2} /></div>}
      {grown && <Document live={l} />}
      <Made live={l} />
      <AgentPause live={l} />
      {standing(l).word === "Writing" && !text && !grown && l.questions.length === 0 && <p class="quiet waits">{agent} is at it.</p>}
      <RunFailure live={l} again={l.request && l.run.error?.code !== "invalid_request" ? () => void say(l.request!) : undefined} />
      {l.anchors.map((name, i) => <AnchorLine key={"a" + i} anchor={{ id: "", anchor: name, date: "", state: undefined }} />)}
      {ended && (
        <p class="turn-foot">
          <span>{standing(l).word}{l.ended ? ` in ${duration(l.elapsed())}` : ""}</span>
          {l.tokens.completion > 0 && <span>{count(l.tokens.completion)} tokens</span>}
          {l.cost > 0 && <span>{money(l.cost)}</span>}
          {several && <button type="button" class="link" aria-pressed={shown} onClick={() => (chosen.value = l)}>{shown ? "Events shown" : "Show its events"}</button>}
        </p>
      )}
    </article>
  );
}

// Why the agent pauses, and until when.
function AgentPause({ live }: { live: Live }) {
  const now = useTick(250, !live.over && live.pauses.size > 0);
  const pause = [...live.pauses.keys()].map((bot) => live.pauseOf(bot, now)).find(Boolean); // of the agent, or of a bot of its workflow
  return pause ? <p class="quiet waits">{sentence(pause)}</p> : null;
}

// What was put into a form of one field reads as what was said.
function plainInput(input: unknown): string {
  if (typeof input === "object" && input !== null) {
    const values = Object.values(input);
    if (values.length === 1 && typeof values[0] === "string") return values[0];
  }
  return JSON.stringify(input, null, 2);
}

const examples = ["What does tape info say?", ",help"];

/** A browser opens six connections to a host, and each run takes one: what is left is for approving and canceling. */
const mostFollowed = 4;

function Composer({ agent, running }: { agent: Agent; running: boolean }) {
  const [text, setText] = useState("");
  const [choices, setChoices] = useState<Choices>(drafts.get(agent.name) ?? noChoices);
  const [failure, fail] = useState<Failure | undefined>(undefined);
  const box = useRef<HTMLTextAreaElement>(null);
  const form = useRef<HTMLFormElement>(null);
  // Where the page scrolls, a question's buttons stand above the composer, however high that is.
  useLayoutEffect(() => {
    const composer = form.current!;
    const observer = new ResizeObserver(() => composer.parentElement?.style.setProperty("--composer", composer.offsetHeight + "px"));
    observer.observe(composer);
    return () => observer.disconnect();
  }, []);
  const byWorkflow = agent.workflow !== undefined;
  const schema = byWorkflow ? described.value?.input : undefined;
  // A workflow that wants more than one text gets a form.
  const plain = !byWorkflow || !schema || oneText(schema);
  const [input, setInput] = useState<any>(undefined);
  const { session } = place.value;
  useEffect(() => {
    if (schema && !plain && input === undefined) setInput(exampleOf(schema));
  }, [schema, plain]);
  const files = useFiles();
  const request = (said: string): RunRequest => ({
    agent: agent.name, ...(session ? { session } : {}), input: plain ? said : withoutBlankRows(schema ?? {}, input), ...(files.parts.length > 0 ? { files: files.parts } : {}), ...requestOf(choices, true),
  });
  useEffect(() => {
    drafts.set(agent.name, choices);
    draft.value = request(text || examples[0]);
  }, [agent.name, text, input, choices, session, files.files]);
  const last = lives.value.at(-1);
  const errors = last?.over && last.run.error?.errors ? last.run.error.errors : [];
  const send = (): void => {
    if (plain && text.trim() === "" && files.files.length === 0) return box.current?.focus();
    if (files.pending) return fail({ code: "busy", message: "a file is not uploaded; wait for it or remove it" });
    // Without a session each message begins one of its own: that of the first one is on its way here.
    if (!session && lives.peek().some((l) => !l.over)) return;
    if (choices.onBusy !== "steer" && lives.peek().filter((l) => !l.over).length >= mostFollowed) {
      return fail({ code: "busy", message: `${mostFollowed} messages wait for answers; send this one after the next answer` });
    }
    fail(undefined);
    if (!plain) setInput(withoutBlankRows(schema ?? {}, input));
    say(request(text.trim() === "" && files.files.length > 0 ? "What is this?" : text)).then(() => (setText(""), files.clear()), (error: Problem) => fail(error));
    if (choices.onBusy !== "steer") setText("");
    box.current?.focus();
  };
  const keys = (e: KeyboardEvent): void => {
    if (e.key !== "Enter" || e.isComposing) return;
    const field = e.target === box.current;
    if (e.ctrlKey || e.metaKey || (field && !e.shiftKey && !matchMedia("(pointer: coarse)").matches)) {
      e.preventDefault();
      send();
    }
  };
  return (
    <form class="composer" ref={form} aria-label={`Message to ${agent.name}`} noValidate onSubmit={(e) => (e.preventDefault(), send())} onKeyDown={keys} onPaste={files.paste} onDrop={files.drop} onDragOver={files.over}>
      {failure && <FailureBox failure={failure} />}
      {plain ? (
        <label class="composer-text">
          <span class="sr">Message</span>
          <textarea ref={box} rows={2} value={text} placeholder={`Message, or a command such as ,help`} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
      ) : <SchemaForm schema={schema} value={input} onChange={setInput} errors={errors} at="/input" idPrefix="said" />}
      <FileChips of={files} />
      <div class="compose-foot">
        <MoreOptions choices={choices} onChange={setChoices} errors={errors} forAgent byWorkflow={byWorkflow} />
        {lives.value.length === 0 && !session && text === "" && plain && !byWorkflow && examples.map((e) => (
          <button key={e} type="button" class="chip" onClick={() => (setText(e), box.current?.focus())}>{e}</button>
        ))}
        <span class="grow" />
        <button type="submit" class="button primary" onMouseDown={stay} aria-keyshortcuts="Control+Enter Meta+Enter">{running ? busyWord(choices.onBusy) : "Send"} <kbd>{plain ? "↵" : shortcut}</kbd></button>
      </div>
    </form>
  );
}

function busyWord(policy: Choices["onBusy"]): string {
  return { "": "Queue", interrupt: "Interrupt", steer: "Steer", reject: "Send" }[policy];
}

function oneText(schema: any): boolean {
  const names = Object.keys(schema?.properties ?? {});
  return schema?.type === "object" && names.length === 1 && schema.required?.length === 1 && schema.properties[names[0]]?.type === "string";
}
