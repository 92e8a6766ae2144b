// Small things that several views have.

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";

/** Renders its caller again in so many ms, as long as it is told to. */
export function useTick(ms: number, on: boolean): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    if (!on) return;
    set(Date.now());
    const timer = setInterval(() => set(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms, on]);
  return now;
}

export interface Tab {
  id: string;
  label: string;
  note?: ComponentChildren;
  panel: () => ComponentChildren;
}

/** Tabs as the ARIA practices have them: arrow keys choose, one of them is in the order of Tab. */
export function Tabs({ tabs, label, chosen, onChoose }: { tabs: Tab[]; label: string; chosen: string; onChoose: (id: string) => void }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const at = Math.max(0, tabs.findIndex((t) => t.id === chosen));
  const step = (e: KeyboardEvent): void => {
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    onChoose(tabs[next].id);
    (list.current?.children[next] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs">
      <div class="tabs-list" role="tablist" aria-label={label} ref={list} onKeyDown={step}>
        {tabs.map((t, i) => (
          <button
            key={t.id} type="button" role="tab" id={`${id}-t-${t.id}`} aria-selected={i === at} aria-controls={i === at ? `${id}-p` : undefined}
            tabIndex={i === at ? 0 : -1} onClick={() => onChoose(t.id)}
          >
            {t.label}
            {t.note !== undefined && <span class="tabs-note">{t.note}</span>}
          </button>
        ))}
      </div>
      <div class="tabs-panel" role="tabpanel" id={`${id}-p`} aria-labelledby={`${id}-t-${tabs[at]?.id}`} key={tabs[at]?.id}>
        {tabs[at]?.panel()}
      </div>
    </div>
  );
}

/** The lamp that says how something stands, in the words next to it. */
export function Lamp({ state }: { state: string }) {
  return <span class={"lamp lamp-" + state} aria-hidden="true" />;
}

/** 0.31 s, 8.2 s, 1 min 04 s */
export function duration(ms: number): string {
  const s = ms / 1000;
  if (s < 1) return s.toFixed(2) + " s";
  if (s < 60) return s.toFixed(1) + " s";
  if (s < 3600) return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

export function size(bytes: number): string {
  if (bytes < 1000) return bytes + " B";
  if (bytes < 1e6) return (bytes / 1e3).toFixed(1) + " kB";
  return (bytes / 1e6).toFixed(1) + " MB";
}

/** 1 234 567 with narrow spaces. */
export function count(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** Millionths of a dollar, with two digits that say something: $1.25, $0.0021. */
export function money(micro: number): string {
  const dollars = micro / 1e6;
  return "$" + dollars.toFixed(dollars >= 1 ? 2 : Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(dollars)))));
}

/** When something was, as short as it can be said. */
export function ago(date: string, now = Date.now()): string {
  const s = Math.max(0, (now - Date.parse(date)) / 1000);
  if (s < 60) return "now";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}
