// The bar above what is looked at: what it is, how it is shown, how it stands, and the one thing that can be done now.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { MenuIcon } from "./icons.js";
import type { Live } from "./live.js";
import { standing } from "./run.js";
import { duration, Lamp, useTick } from "./ui.js";

/** Whether the menu, and the sheet of the instruments, are open where there is no room for them. */
export const menu = signal(false);
export const details = signal(false);
/** What the run that is shown was asked, and how to ask something else; undefined while that can be seen. */
export const asked = signal<{ text: string; change: () => void } | undefined>(undefined);

export function Bar({ name, about, views, children }: { name: string; about?: ComponentChildren; views?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="bar">
      <div class="bar-what">
        <button type="button" class="bar-menu" aria-haspopup="dialog" aria-label="Menu" onClick={() => (menu.value = true)}><MenuIcon /></button>
        <h1>{name}</h1>
        {about}
      </div>
      {views && <div class="bar-views">{views}</div>}
      <div class="bar-do">{children}</div>
    </header>
  );
}

/** How a run stands, and for how long it has run. */
export function Stands({ live }: { live: Live }) {
  live.revision.value;
  const now = useTick(100, !live.over);
  const { word, lamp } = standing(live);
  const known = !live.over || live.ended !== undefined;
  return (
    <>
      {live.resumed && live.count > 0 && <span class="tag" title="This page opened during the run and continued it.">Resumed</span>}
      {live.restarted && <span class="tag" title="The server restarted during this run, and the run continued.">Restarted{live.restarted.times > 1 ? ` ${live.restarted.times}×` : ""}</span>}
      {live.reconnects.value > 0 && !live.restarted && <span class="tag" title="The connection broke and was restored. No events are missing.">Reconnected{live.reconnects.value > 1 ? ` ${live.reconnects.value}×` : ""}</span>}
      <span class="run-state"><Lamp state={lamp} /> <span class="run-word">{word}</span></span>
      {known && <span class="run-time">{duration(live.elapsed(now))}</span>}
    </>
  );
}
