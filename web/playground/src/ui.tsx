// Small things that several views have.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { CloseIcon } from "./icons.js";

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

/** 999 B, 1.5 kB, 16 MiB: a limit that is a power of two is written as one. */
export function size(bytes: number): string {
  if (bytes > 0 && bytes % (1 << 20) === 0) return bytes / (1 << 20) + " MiB";
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

/** On which day something was, as people say it. */
export function day(date: string, now = Date.now()): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const at = Date.parse(date);
  if (at >= midnight) return "Today";
  if (at >= midnight - 86400_000) return "Yesterday";
  if (at >= midnight - 6 * 86400_000) return "This week";
  return "Earlier";
}

/** When something was, as short as it can be said. */
export function ago(date: string, now = Date.now()): string {
  const s = Math.max(0, (now - Date.parse(date)) / 1000);
  if (s < 60) return "now";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

/** Whether a media query holds, now and whenever that changes. */
export function useMedia(query: string): boolean {
  const [on, set] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = (): void => set(list.matches);
    changed();
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return on;
}

// What Esc closes, the newest last.
const closers: object[] = [];

/**
 * Closes with Esc what is open, the newest first. If the focus is inside, it goes to the button that has opened it: the one whose
 * `aria-controls` names the element. What is open is known before the next key.
 */
export function useEscape(isOpen: boolean, close: () => void, inside: { current: HTMLElement | null }): void {
  const latest = useRef(close);
  latest.current = close;
  useLayoutEffect(() => {
    if (!isOpen) return;
    const keys = (e: KeyboardEvent): void => {
      if (e.key !== "Escape" || closers.at(-1) !== keys || e.defaultPrevented || e.isComposing || document.querySelector("dialog:modal")) return;
      // A list of choices, and a search that has words, have their own use for it.
      if (e.target instanceof HTMLSelectElement || (e.target instanceof HTMLInputElement && e.target.type === "search" && e.target.value !== "")) return;
      e.preventDefault();
      const box = inside.current;
      if (box?.id && box.contains(document.activeElement)) document.querySelector<HTMLElement>(`[aria-controls="${CSS.escape(box.id)}"]`)?.focus();
      latest.current();
    };
    closers.push(keys);
    addEventListener("keydown", keys);
    return () => {
      closers.splice(closers.indexOf(keys), 1);
      removeEventListener("keydown", keys);
    };
  }, [isOpen]);
}

/** What lies over the page until it is closed: by Esc, by its button, by a click beside it. */
export function Sheet({ open, from, label, onClose, children }: { open: boolean; from: "start" | "bottom"; label: string; onClose: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const dialog = ref.current!;
    if (open && !dialog.open) dialog.showModal();
    else if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog class={"sheet sheet-" + from} ref={ref} aria-label={label} onClose={onClose} onClick={(e) => e.target === ref.current && onClose()}>
      {open && <div class="sheet-body"><button type="button" class="sheet-close" onClick={onClose} aria-label={`Close ${label.toLowerCase()}`}><CloseIcon /></button>{children}</div>}
    </dialog>
  );
}
