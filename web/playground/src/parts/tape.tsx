import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { ask, Problem, type Entry } from "../api.js";
import { sentence } from "../failure.js";
import { mediaOf, withoutFacts } from "../turns.js";
import { count } from "../ui.js";
import { JSONValue } from "./json.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { short, visible } from "./text.js";
import { DocumentTree } from "./tree.js";

export interface TapeProps {
  session: string;
  /** Another number says that something may have been written. */
  revision: number;
  /** A fork was made, or is to be looked at. */
  onOpen?: (session: string) => void;
  /** The session is gone. */
  onErased?: () => void;
}

interface Info {
  id: string;
  title: string;
  counts: { entries: number; anchors: number; unreadable?: number };
  last_id: number;
  bytes: number;
}

interface Page {
  entries: Entry[];
  next?: number;
}

type Action = { kind: "handoff" } | { kind: "fork"; at?: number } | { kind: "erase" };

const page = 100; // entries that are read at once

/** The tape of a session: what was said, called and marked, its end first. */
export function Tape({ session, revision, onOpen, onErased }: TapeProps) {
  const [info, setInfo] = useState<Info | undefined>(); // of the session that was read last
  const [missing, setMissing] = useState<string | undefined>(); // a session that is not there
  const [entries, setEntries] = useState<Entry[]>([]);
  const [begin, setBegin] = useState(0); // entries up to this id are not read yet
  const [problem, setProblem] = useState("");
  const [said, say] = useState("");
  const [query, setQuery] = useState("");
  const [steps, showSteps] = useState(false);
  const [action, act] = useState<Action | undefined>();
  const at = `/v1/sessions/${encodeURIComponent(session)}`;
  const asked = useRef(0); // the newest question; an answer to an older one is not shown any more
  const tools = useMemo(() => toolsOf(entries), [entries]);
  const known = useRef<{ session: string; last: number }>({ session: "", last: 0 });

  // There is no such session, or not any more.
  const gone = (): void => {
    asked.current++;
    known.current = { session: "", last: 0 };
    setMissing(session);
    setInfo(undefined);
    setEntries([]);
    setProblem("");
  };

  // Reads on behind what is known, or from the last page where nothing is.
  const refresh = async (): Promise<void> => {
    const mine = ++asked.current;
    try {
      const now = await ask<Info>(at);
      if (mine !== asked.current) return;
      const goesOn = known.current.session === session && known.current.last <= now.last_id && now.last_id - known.current.last <= 10 * page;
      const from = goesOn ? known.current.last : Math.max(0, now.last_id - page);
      const fresh: Entry[] = [];
      for (let after: number | undefined = from; after !== undefined && after < now.last_id; ) {
        const p: Page = await ask<Page>(`${at}/tape?after=${after}&limit=${page}`);
        if (mine !== asked.current) return;
        fresh.push(...p.entries);
        after = p.next;
      }
      // Only now, and all of it together: whoever was asked for meanwhile goes on with what there was.
      known.current = { session, last: Math.max(now.last_id, fresh.at(-1)?.id ?? 0) };
      setInfo(now);
      setMissing(undefined);
      setEntries((old) => (goesOn ? [...old, ...fresh] : fresh));
      if (!goesOn) setBegin(from);
      setProblem("");
    } catch (error) {
      if (mine !== asked.current) return;
      if (error instanceof Problem && error.status === 404) {
        gone();
      } else setProblem(sentence((error as Error).message));
    }
  };

  useEffect(() => {
    void refresh();
    return () => void asked.current++;
  }, [session, revision]);

  const earlier = async (): Promise<void> => {
    const from = Math.max(0, begin - page);
    const mine = asked.current;
    try {
      const p = await ask<Page>(`${at}/tape?after=${from}&limit=${begin - from}`);
      if (mine !== asked.current) return;
      setEntries((old) => [...p.entries.filter((e) => e.id <= begin), ...old]);
      setBegin(from);
    } catch (error) {
      setProblem(sentence((error as Error).message));
    }
  };

  if (missing === session) {
    return (
      <div class="tape tape-empty">
        <p>This session has no tape yet. It begins with the first message.</p>
      </div>
    );
  }
  if (info?.id !== session) {
    return (
      <div class="tape tape-empty" aria-busy={!problem}>
        <p>{problem || "Reading the tape …"}</p>
        {problem && (
          <button type="button" class="tape-button" onClick={() => void refresh()}>
            Try again
          </button>
        )}
      </div>
    );
  }

  const shown = entries.filter((e) => steps || !isQuiet(e));
  const lastAnchor = entries.findLast((e) => e.kind === "anchor")?.id ?? 0;
  return (
    <div class="tape">
      <div class="tape-bar">
        <p class="tape-counts">
          {count(info.counts.entries)} {info.counts.entries === 1 ? "entry" : "entries"}, {count(info.counts.anchors)} {info.counts.anchors === 1 ? "anchor" : "anchors"}
          {info.counts.unreadable ? `, ${count(info.counts.unreadable)} damaged and skipped` : ""}
        </p>
        <div class="tape-actions">
          <button type="button" class="tape-button" onClick={() => act({ kind: "handoff" })}>
            Hand off
          </button>
          <button type="button" class="tape-button" onClick={() => act({ kind: "fork" })}>
            Fork
          </button>
          <button type="button" class="tape-button tape-danger" onClick={() => act({ kind: "erase" })}>
            Erase
          </button>
        </div>
      </div>
      <div class="tape-find">
        <input type="search" aria-label="Search the tape" placeholder="Search" value={query} maxLength={250} onInput={(e) => setQuery(e.currentTarget.value)} />
        <label>
          <input type="checkbox" checked={steps} onChange={(e) => showSteps(e.currentTarget.checked)} /> Show every step
        </label>
      </div>
      <p class="tape-said" role="status">
        {said}
      </p>
      {problem && (
        <p class="tape-problem" role="alert">
          {problem}{" "}
          <button type="button" class="part-quiet" onClick={() => void refresh()}>
            Try again
          </button>
        </p>
      )}
      {query.trim() ? (
        <Found at={at} query={query.trim()} lastAnchor={lastAnchor} onFork={(id) => act({ kind: "fork", at: id })} />
      ) : (
        <>
          {begin > 0 && (
            <button type="button" class="tape-button tape-earlier" onClick={() => void earlier()}>
              Earlier entries
            </button>
          )}
          <ol class="tape-entries">
            {shown.map((e) => (
              <Row key={e.id} entry={e} past={e.id < lastAnchor} tools={tools.get(e.id)} onFork={forkHere} />
            ))}
          </ol>
          {shown.length === 0 && <p class="tape-none">There are no entries yet.</p>}
        </>
      )}
      {action && (
        <ActionDialog
          key={action.kind}
          action={action}
          at={at}
          session={session}
          onClose={(done, what) => {
            act(undefined);
            if (!done) return;
            say(done);
            if (what?.open) onOpen?.(what.open);
            if (action.kind === "erase") {
              gone();
              onErased?.();
            } else void refresh();
          }}
        />
      )}
    </div>
  );

  function forkHere(id: number): void {
    act({ kind: "fork", at: id });
  }
}

// Whether an entry is for those who want to know each step. Of events, what people did is for all.
function isQuiet(e: Entry): boolean {
  return e.kind === "system" || (e.kind === "event" && !people.has(e.payload?.name));
}

const people = new Set(["command", "approval"]);

function Found({ at, query, lastAnchor, onFork }: { at: string; query: string; lastAnchor: number; onFork: (id: number) => void }) {
  const [found, setFound] = useState<{ query: string; entries: Entry[]; next?: number; problem?: string } | undefined>();
  useEffect(() => {
    let gone = false;
    const timer = setTimeout(async () => {
      try {
        const p = await ask<Page>(`${at}/tape?limit=${page}&q=${encodeURIComponent(query)}`);
        if (!gone) setFound({ query, ...p });
      } catch (error) {
        if (!gone) setFound({ query, entries: [], problem: sentence((error as Error).message) });
      }
    }, 250);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [at, query]);
  const more = async (): Promise<void> => {
    try {
      const p = await ask<Page>(`${at}/tape?limit=${page}&after=${found!.next}&q=${encodeURIComponent(query)}`);
      setFound((old) => (old?.query === query ? { query, entries: [...old.entries, ...p.entries], next: p.next } : old));
    } catch (error) {
      setFound((old) => old && { ...old, problem: sentence((error as Error).message) });
    }
  };
  const n = found?.entries.length ?? 0;
  return (
    <>
      <p class="tape-none" role="status">
        {!found ? "Searching …" : (found.problem ?? (n === 0 ? `No entry contains “${short(found.query, 60)}”.` : `${count(n)}${found.next ? " and more" : ""} found.`))}
      </p>
      <ol class="tape-entries">
        {found?.entries.map((e) => (
          <Row key={e.id} entry={e} past={e.id < lastAnchor} onFork={onFork} />
        ))}
      </ol>
      {found?.next !== undefined && (
        <button type="button" class="tape-button" onClick={() => void more()}>
          More
        </button>
      )}
    </>
  );
}

const Row = memo(
  ({ entry, past, tools, onFork }: { entry: Entry; past: boolean; tools?: string[]; onFork: (id: number) => void }) => (
    <li class={`tape-entry tape-${kindClass(entry)}${past ? " tape-past" : ""}`}>
      <div class="tape-meta">
        <span class="tape-who">{who(entry)}</span>
        <button type="button" class="tape-id" onClick={() => onFork(entry.id)} title={`Entry ${entry.id}, ${new Date(entry.date).toLocaleString()}: fork the session here`} aria-label={`Entry ${entry.id}: fork the session here`}>
          {entry.id}
        </button>
      </div>
      <div class="tape-what">{what(entry, tools)}</div>
    </li>
  ),
  (a, b) => a.entry === b.entry && a.past === b.past && a.tools?.join() === b.tools?.join(),
);

const kinds = new Set(["message", "tool_call", "tool_result", "anchor", "event", "system", "reasoning", "error"]);

function kindClass(e: Entry): string {
  if (e.kind === "message") return e.payload?.role === "user" ? "user" : "assistant";
  return kinds.has(e.kind) ? e.kind : "other";
}

function who(e: Entry): string {
  switch (e.kind) {
    case "message":
      return e.payload?.role === "user" ? "User" : e.payload?.role === "assistant" ? "Assistant" : visible(short(String(e.payload?.role ?? "Message"), 40));
    case "tool_call":
      return "Calls";
    case "tool_result":
      return "Result";
    case "anchor":
      return "Anchor";
    case "system":
      return "Instructions";
    case "reasoning":
      return "Reasoning";
    case "error":
      return "Error";
    case "event":
      return e.payload?.name === "command" ? "Command" : e.payload?.name === "approval" ? "Approval" : "Step";
  }
  return visible(short(e.kind, 40));
}

function what(e: Entry, tools: string[] = []): ComponentChildren {
  const p = e.payload ?? {};
  switch (e.kind) {
    case "message": {
      const media = mediaOf(p.content);
      // The facts before a message without words say nothing of what was sent.
      if (media.length > 0 && list(p.content).every((part) => withoutFacts(String(part?.text ?? "")) === "")) return <p class="tape-none">({visible(short(media.join(", "), 300))})</p>;
      return <Content content={p.content} />;
    }
    case "tool_call":
      return (
        <>
          {p.content && <Content content={p.content} />}
          {list(p.calls).map((call: any) => (
            <Fold title={visible(String(call?.function?.name ?? "a tool"))} hint={visible(short(String(call?.function?.arguments ?? ""), 120))}>
              <JSONValue value={parsed(call?.function?.arguments)} label="Arguments" />
            </Fold>
          ))}
        </>
      );
    case "tool_result":
      return list(p.results).map((result: unknown, i: number) => (
        <Fold title={visible(tools[i] ?? String(list(p.ids)[i] ?? "result"))} hint={visible(short(typeof result === "string" ? result : (JSON.stringify(result) ?? ""), 120))}>
          <JSONValue value={parsed(result)} label="Result" />
        </Fold>
      ));
    case "anchor":
      return (
        <>
          <p class="tape-anchor-name">{visible(short(String(p.name ?? ""), 128))}</p>
          <State state={p.state} />
        </>
      );
    case "system":
    case "reasoning":
      return (
        <Fold title={e.kind === "system" ? "Instructions for the model" : "Reasoning of the model"} hint={short(String(p.content ?? ""), 120)}>
          <Content content={p.content} />
        </Fold>
      );
    case "error":
      return (
        <p class="tape-error-text">
          {sentence(String(p.message ?? "failed"))} {p.kind && <code>{String(p.kind)}</code>}
        </p>
      );
    case "event":
      if (p.name === "command" && typeof p.data?.output === "string") {
        return (
          <Fold title={visible("," + short(String(p.data.name), 60))} hint={visible(short(p.data.output, 120))}>
            <Content content={p.data.output} />
          </Fold>
        );
      }
      if (p.name === "approval" && typeof p.data?.tool === "string") {
        return (
          <p class="tape-decision">
            <code>{visible(short(p.data.tool, 120))}</code> {p.data.decision === "approve" ? "was allowed" : "was denied"}
            {typeof p.data.reason === "string" && `: ${visible(short(p.data.reason, 300))}`}
          </p>
        );
      }
      return (
        <Fold title={String(p.name ?? "event")} hint={visible(short(p.data === undefined ? "" : JSON.stringify(p.data), 120))}>
          <JSONValue value={p.data ?? null} label="Data" />
        </Fold>
      );
  }
  return (
    <Fold title={short(e.kind, 40)} hint="">
      <JSONValue value={p} label="Payload" />
    </Fold>
  );
}

// The tools whose results an entry has, by the entry's id. Ids of calls come again in other turns: the newest call before it counts.
function toolsOf(entries: readonly Entry[]): Map<number, string[]> {
  const called = new Map<string, string>();
  const out = new Map<number, string[]>();
  for (const e of entries) {
    if (e.kind === "tool_call") for (const call of list(e.payload?.calls)) called.set(String(call?.id), String(call?.function?.name ?? call?.id));
    if (e.kind === "tool_result") out.set(e.id, list(e.payload?.ids).map((id) => called.get(String(id)) ?? String(id)));
  }
  return out;
}

function list(value: unknown): any[] {
  return Array.isArray(value) ? value : [];
}

// JSON in a text, as models have it.
function parsed(value: unknown): unknown {
  if (typeof value !== "string") return value ?? null;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

// What was said: Markdown, or a document, as workflows answer with one.
function Content({ content }: { content: unknown }) {
  const value = useMemo(() => (typeof content === "string" && /^\s*[{[]/.test(content) ? parsed(content) : undefined), [content]);
  if (typeof value === "object" && value !== null) return <DocumentTree value={value} done={always} />;
  if (typeof content === "string") return content.trim() === "" ? <p class="tape-none">(no text)</p> : <Markdown text={content} level={3} />;
  return (
    <>
      {list(content).map((part) =>
        typeof part?.text === "string" ? <Markdown text={part.text} level={3} /> : <p class="tape-none">({visible(short(mediaOf([part])[0] ?? String(part?.type ?? "something that is no text"), 60))})</p>,
      )}
    </>
  );
}

function always(): boolean {
  return true;
}

// An anchor's state, a summary most of the time.
function State({ state }: { state: any }) {
  if (state === null || state === undefined) return null;
  const keys = typeof state === "object" && !Array.isArray(state) ? Object.keys(state) : [];
  const summary = typeof state === "string" ? state : keys.length === 1 && typeof state.summary === "string" ? state.summary : undefined;
  if (summary !== undefined) return <Fold title="Summary" hint={visible(short(summary, 120))}><Markdown text={summary} level={3} /></Fold>;
  if (keys.length === 1 && keys[0] === "owner") return null; // of the first one
  return <JSONValue value={state} label="State" />;
}

function Fold({ title, hint, children }: { title: string; hint: string; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="tape-fold" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        <code>{title}</code> <span>{hint}</span>
      </summary>
      {open && children}
    </details>
  );
}

interface DialogProps {
  action: Action;
  at: string;
  session: string;
  onClose: (done?: string, what?: { open?: string }) => void;
}

// A dialog for what changes the tape.
function ActionDialog({ action, at, session, onClose }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);

  const send = async (e: Event): Promise<void> => {
    e.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      if (action.kind === "handoff") {
        await ask(`${at}/handoff`, { name: name.trim(), state: text.trim() ? { summary: text.trim() } : null });
        onClose(`The anchor ${name.trim()} was written.`);
      } else if (action.kind === "fork") {
        const made = await ask<Info>(`${at}/fork`, { ...(name.trim() && { session: name.trim() }), ...(action.at && { at: action.at }) });
        onClose(`The session ${made.id} was created.`, { open: made.id });
      } else {
        await ask(at, undefined, "DELETE");
        onClose("The session was erased.");
      }
    } catch (error) {
      setProblem(sentence((error as Error).message));
      setBusy(false);
    }
  };

  return (
    <dialog ref={ref} class="tape-dialog" aria-labelledby={`${id}-title`} onCancel={(e) => (e.preventDefault(), onClose())} onClick={(e) => e.target === ref.current && onClose()}>
      <form onSubmit={(e) => void send(e)}>
        {action.kind === "handoff" && (
          <>
            <h3 id={`${id}-title`}>Hand off</h3>
            <p>Writes an anchor. From then on, the model sees the summary and the entries after it. The tape keeps all entries.</p>
            <label for={`${id}-name`}>Name</label>
            <input id={`${id}-name`} required maxLength={128} value={name} placeholder="e.g. billing" autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} />
            <label for={`${id}-text`}>Summary (optional)</label>
            <textarea id={`${id}-text`} rows={4} value={text} dir="auto" onInput={(e) => setText(e.currentTarget.value)} />
          </>
        )}
        {action.kind === "fork" && (
          <>
            <h3 id={`${id}-title`}>Fork</h3>
            <p>Copies {action.at ? `the entries up to ${action.at}` : "all entries"} into a new session. From then on neither knows of the other.</p>
            <label for={`${id}-name`}>Name of the new session (optional)</label>
            <input id={`${id}-name`} maxLength={512} value={name} placeholder="random" autocomplete="off" onInput={(e) => setName(e.currentTarget.value)} />
          </>
        )}
        {action.kind === "erase" && (
          <>
            <h3 id={`${id}-title`}>Erase this session?</h3>
            <p>
              What runs in <code>{visible(short(session, 80))}</code> is canceled. Then all its entries are erased, for good.
            </p>
          </>
        )}
        <div role="alert">{problem && <p class="tape-problem">{problem}</p>}</div>
        <div class="tape-dialog-foot">
          <button type="button" class="tape-button" autofocus={action.kind === "erase"} onClick={() => onClose()}>
            Cancel
          </button>
          <button type="submit" class={`tape-button tape-main${action.kind === "erase" ? " tape-danger" : ""}`} disabled={busy}>
            {action.kind === "handoff" ? "Write the anchor" : action.kind === "fork" ? "Fork" : "Erase"}
          </button>
        </div>
      </form>
    </dialog>
  );
}
