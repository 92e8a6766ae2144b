// The raw events of a run. However many there are, only those are in the page that can be seen.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunEvent } from "../../client/src/index.js";
import { Follower } from "./follow.js";
import type { Live, Row } from "./live.js";
import { short, visible } from "./parts/text.js";
import { count, useEscape } from "./ui.js";

const rowHeight = 22; // px, as events.css has it
const most = 200; // characters of an event in a row

type Kind = "all" | "deltas" | "named";

function nameOf(e: RunEvent): string {
  return "event" in e ? e.event : "done" in e ? "done" : "delta";
}

function textOf(e: RunEvent): string {
  return "event" in e ? clip(e.data) : "done" in e ? "" : clip(e.delta);
}

// The beginning of a value; one that is large is not written out for it.
function clip(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > most ? value.slice(0, most) + "…" : value);
  let left = 40;
  const text = JSON.stringify(value, function (this: unknown, key: string, v: unknown) {
    if (--left < 0) return undefined;
    return typeof v === "string" && v.length > 60 ? v.slice(0, 60) + "…" : Array.isArray(v) && v.length > 20 ? v.slice(0, 20) : v;
  });
  return text === undefined ? "" : text.length > most ? text.slice(0, most) + "…" : text;
}

/** The number of an event in its run: what stands behind the colon of its id. That of an end which is told in place of a run is none. */
function numberOf(e: RunEvent): string {
  const number = e.id?.slice(e.id.lastIndexOf(":") + 1) ?? "";
  return number === "" || number.length > 12 ? "·" : number;
}

export function Events({ live, bot, onClearBot }: { live: Live | undefined; bot?: string; onClearBot: () => void }) {
  const [kind, setKind] = useState<Kind>("all");
  const [find, setFind] = useState("");
  const [open, setOpen] = useState<Row | undefined>(undefined);
  const one = useRef<HTMLDivElement>(null);
  useEscape(open !== undefined, () => setOpen(undefined), one);
  const revision = live?.revision.value;
  const shown = useFiltered(live, revision, kind, find, bot);
  if (!live) {
    return (
      <div class="empty">
        <p>Each event has a place in the document and what to add there.</p>
        <pre class="sample">{`article/title   "Wh"\narticle/title   "y th"\narticle/title   "e Sk"`}</pre>
        <p>If the connection breaks, the client sends the id of the last event and misses nothing.</p>
      </div>
    );
  }
  return (
    <div class="events">
      <div class="events-bar">
        <label class="field-inline">
          <span class="sr">Find in events</span>
          <input type="search" value={find} placeholder="Find a uri or a name" onInput={(e) => setFind(e.currentTarget.value)} />
        </label>
        <label class="field-inline">
          <span class="sr">Which events</span>
          <select value={kind} onChange={(e) => setKind(e.currentTarget.value as Kind)}>
            <option value="all">All</option>
            <option value="deltas">Deltas</option>
            <option value="named">Named</option>
          </select>
        </label>
        {bot && (
          <button type="button" class="tag" onClick={onClearBot} aria-label={`Show events of all bots, not only of ${bot}`}>
            {bot} <span aria-hidden="true">×</span>
          </button>
        )}
      </div>
      <Rows rows={shown} open={open} onOpen={(row) => setOpen(row === open ? undefined : row)} />
      {live.dropped > 0 && <p class="note">The first {count(live.dropped)} events are not kept here any more; the document has all of them in it.</p>}
      {open && (
        <div class="events-one" role="status" ref={one}>
          <pre tabIndex={0} aria-label={`Event ${numberOf(open.event)}`}>{full(open.event)}</pre>
        </div>
      )}
    </div>
  );
}

function full(e: RunEvent): string {
  const text = JSON.stringify(e, null, 2);
  return text.length > 20_000 ? text.slice(0, 20_000) + `\n… and ${count(text.length - 20_000)} characters more` : text;
}

// What a filter lets through, looked for only in what has come since.
function useFiltered(live: Live | undefined, revision: number | undefined, kind: Kind, find: string, bot: string | undefined): Row[] {
  const was = useRef<{ live?: Live; kind: Kind; find: string; bot?: string; upTo: number; rows: Row[] }>(undefined);
  return useMemo(() => {
    if (!live) return [];
    if (kind === "all" && find === "" && !bot) return live.rows.slice();
    const w = was.current;
    const same = w && w.live === live && w.kind === kind && w.find === find && w.bot === bot;
    const known = same ? w.rows : [];
    const upTo = same ? w.upTo : -1;
    const words = find.toLowerCase();
    const first = live.rows.length > 0 ? live.rows[0].n : 0;
    const fresh = live.rows.slice(Math.max(0, upTo + 1 - first)).filter(({ event: e }) => {
      if (kind === "deltas" ? "event" in e : kind === "named" && !("event" in e)) return false;
      if (bot && ("event" in e ? (e.data as { bot?: string } | null)?.bot !== bot : live.bots.nameAt(e.uri) !== bot)) return false;
      return words === "" || ("event" in e ? e.event + textOf(e) : e.uri).toLowerCase().includes(words);
    });
    const rows = known.length > 0 && known[0].n < first ? [...known.filter((r) => r.n >= first), ...fresh] : fresh.length > 0 ? [...known, ...fresh] : known;
    was.current = { live, kind, find, bot, upTo: live.rows.at(-1)?.n ?? -1, rows };
    return rows;
  }, [live, revision, kind, find, bot]);
}

function Rows({ rows, open, onOpen }: { rows: Row[]; open?: Row; onOpen: (row: Row) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(400);
  const follower = useRef(new Follower());
  useLayoutEffect(() => {
    const el = box.current!;
    const observer = new ResizeObserver(() => setHeight(el.clientHeight));
    observer.observe(el);
    return () => observer.disconnect();
  }, []);
  // Also when the list gets lower, as when an event is opened below it.
  useLayoutEffect(() => {
    const el = box.current!;
    if (follower.current.following) el.scrollTop = el.scrollHeight;
    follower.current.note(el);
  }, [rows.length, height]);
  // With the keyboard one goes from event to event; only those in sight are in the page.
  const keys = (e: KeyboardEvent): void => {
    const at = open ? rows.indexOf(open) : -1;
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? rows.length - 1 : at - 1, Home: 0, End: rows.length - 1 }[e.key];
    if (e.key === "Enter" && open && e.target === box.current) return onOpen(open);
    if (to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    const next = rows[Math.min(rows.length - 1, Math.max(0, to))];
    if (!next || next === open) return;
    onOpen(next);
    const el = box.current!;
    const y = rows.indexOf(next) * rowHeight;
    if (y < el.scrollTop) el.scrollTop = y;
    else if (y + rowHeight > el.scrollTop + el.clientHeight) el.scrollTop = y + rowHeight - el.clientHeight;
  };
  const scrolled = (): void => {
    const el = box.current;
    if (!el) return; // it is told of after its end, too
    follower.current.scrolled(el, el.scrollHeight - el.scrollTop - el.clientHeight < rowHeight / 2);
    setTop(el.scrollTop);
  };
  const from = Math.max(0, Math.floor(top / rowHeight) - 10);
  const to = Math.min(rows.length, Math.ceil((top + height) / rowHeight) + 10);
  return (
    <div class="events-rows" ref={box} onScroll={scrolled} onKeyDown={keys} tabIndex={0} role="region" aria-label="Events of the run" aria-keyshortcuts="ArrowUp ArrowDown">
      <div class="events-all" style={{ height: rows.length * rowHeight + "px" }}>
        <ol class="events-window" style={{ transform: `translateY(${from * rowHeight}px)` }}>
          {rows.slice(from, to).map((row) => {
            const e = row.event;
            const name = nameOf(e);
            return (
              <li key={row.n}>
                <button type="button" class={"event event-" + ("event" in e ? "named event-" + e.event : name)} aria-expanded={row === open} tabIndex={-1} onClick={() => onOpen(row)}>
                  <span class="event-at">{(row.at / 1000).toFixed(3)}</span>
                  <span class="event-id">{numberOf(e)}</span>
                  <span class="event-name">{"event" in e ? e.event : e.uri === "" ? "(root)" : visible(short(e.uri, most))}</span>
                  <span class="event-text">{"done" in e ? "done" : visible(textOf(e))}</span>
                </button>
              </li>
            );
          })}
        </ol>
      </div>
      {rows.length === 0 && <p class="quiet events-none">No events yet.</p>}
    </div>
  );
}
