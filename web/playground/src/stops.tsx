// The bots of a run in the side column, and in the line at the foot where there is no room for it.

import type { Live } from "./live.js";
import { Stops, type Start } from "./parts/stops.js";
import { described } from "./store.js";
import { titleAt } from "./run.js";
import { duration, useTick } from "./ui.js";

function startsOf(live: Live, bot: string, now: number): Start[] {
  return Array.from(live.bots.starts(bot), ([root, { state, began, ended }]) => ({
    root,
    label: titleAt(live, root),
    state: state === "writing" && live.over ? (live.run.status === "completed" ? "done" : "stopped") : state,
    time: began === undefined ? "" : ended !== undefined ? duration(ended - began) : live.over ? "" : duration(Math.max(0, now - live.began - began)),
  }));
}

// From a bot's first start to the end of its last one.
function timeOf(live: Live, bot: string, now: number): string {
  const starts = [...live.bots.starts(bot).values()];
  if (starts.length === 0 || starts.some((s) => s.began === undefined)) return "";
  const ends = starts.map((s) => s.ended ?? (live.over ? undefined : now - live.began));
  if (ends.includes(undefined)) return "";
  return duration(Math.max(0, Math.max(...(ends as number[])) - Math.min(...starts.map((s) => s.began!))));
}

export function BotStops({ live, selected, onSelect }: { live: Live | undefined; selected?: string; onSelect: (bot: string) => void }) {
  live?.revision.value;
  const now = useTick(250, !!live && !live.over);
  return <Stops graph={described.value!.graph!} states={live?.states() ?? {}} startsOf={live && ((bot) => startsOf(live, bot, now))} timeOf={live && ((bot) => timeOf(live, bot, now))} pauseOf={live && ((bot) => live.pauseOf(bot, now))} selected={selected ?? ""} onSelect={onSelect} />;
}

/** How far a run is: a piece for each start of a bot, and in words. */
export function Progress({ live }: { live: Live }) {
  live.revision.value;
  const now = useTick(250, !live.over && live.pauses.size > 0);
  const states = live.states();
  const pieces = Object.entries(states).flatMap(([name, state]) => {
    const starts = [...live.bots.starts(name).values()];
    return starts.length > 0 ? starts.map((s) => (s.state === "writing" ? state : s.state)) : [state];
  });
  const writing = Object.entries(states).filter(([, state]) => state === "writing");
  const running = writing.map(([name]) => {
    const starts = [...live.bots.starts(name).values()];
    const n = starts.filter((s) => s.state === "writing").length;
    return starts.length > 1 ? `${n} of ${starts.length} ${name}s` : name;
  });
  const failed = Object.keys(states).filter((name) => states[name] === "failed");
  const [paused] = Object.keys(states).filter((name) => live.pauseOf(name, now));
  const words = paused !== undefined ? `${paused}: ${live.pauseOf(paused, now)}`
    : running.length > 0 ? `Writing: ${running.join(", ")}`
    : failed.length > 0 ? `Failed: ${failed.join(", ")}`
    : live.over ? "Bots, metrics, events, code" : "No bot is writing";
  return (
    <>
      <span class="progress" aria-hidden="true">{pieces.slice(0, 24).map((state, i) => <span key={i} class={"progress-" + state} />)}</span>
      <span class="progress-words">{words}</span>
    </>
  );
}
