// Canceling a run, which cannot be taken back: at once with the button, and with Esc when it is pressed twice.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Live } from "./live.js";

/** How long the second Esc is waited for, in ms. */
const patience = 2500;

/** How a run is canceled; `escapes` says whether Esc means this one. */
export function useCancel(live: Live | undefined, escapes = true): { now: () => void; asked: boolean; busy: boolean; failed: string } {
  const [busy, setBusy] = useState(false);
  const [failed, fail] = useState("");
  const [asked, setAsked] = useState(false);
  const waits = useRef(false); // is there at once; both presses may come before anything is rendered
  const ask = (whether: boolean): void => {
    waits.current = whether;
    setAsked(whether);
  };
  const listens = escapes && live !== undefined && !live.over;
  const now = (): void => {
    ask(false);
    fail("");
    if (!live) return;
    if (!live.id) return live.run.close(); // the server knows nothing of it yet
    setBusy(true);
    live.run.cancel().then(
      () => setBusy(false),
      (error: Error) => {
        setBusy(false);
        fail("The run could not be canceled: " + error.message);
      },
    );
  };
  useEffect(() => {
    ask(false);
    setBusy(false);
    fail("");
  }, [live]);
  useEffect(() => {
    if (!listens) return ask(false);
    const keys = (e: KeyboardEvent): void => {
      // What is open for itself has its own use for Esc, and so has an input method.
      if (e.key !== "Escape" || e.defaultPrevented || e.isComposing || e.repeat) return;
      if (e.target instanceof Element && e.target.closest("select, [type=search], dialog, [role=dialog]")) return;
      if (waits.current) return now();
      ask(true);
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [listens, live]);
  useEffect(() => {
    if (!asked) return;
    const timer = setTimeout(() => ask(false), patience);
    return () => clearTimeout(timer);
  }, [asked]);
  return { now, asked, busy, failed };
}
