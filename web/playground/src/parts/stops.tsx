import { order, sayTrigger, shortTrigger, type WorkflowGraph } from "./graph/order.js";
import { marked } from "./text.js";

export type { WorkflowGraph } from "./graph/order.js";
export type BotState = "waiting" | "writing" | "done" | "failed" | "stopped";

/** One of the times that a bot was started. */
export interface Start {
  root: string; // where it writes
  label: string;
  state: BotState;
  time: string; // how long it has taken so far; "" where that is not known
}

export interface StopsProps {
  graph: WorkflowGraph;
  states: Record<string, BotState>;
  /** The starts of a bot, in the order in which they came. */
  startsOf?: (bot: string) => Start[];
  /** How long a bot took for all of them; "" where that is not known. */
  timeOf?: (bot: string) => string;
  /** Why a bot pauses, and until when; "" if it does not. */
  pauseOf?: (bot: string) => string;
  onSelect?: (bot: string) => void;
  /** The bot that is looked at. */
  selected?: string;
}

const most = 12; // starts of a bot that are shown

/** The bots of a workflow as stops on a line, with what each is doing. What a bot was started for several times branches off. */
export function Stops({ graph, states, startsOf, timeOf, pauseOf, onSelect, selected }: StopsProps) {
  return (
    <>
      <ol class="stops" aria-label="Bots">
        {order(graph.bots).map((i) => {
          const bot = graph.bots[i]!;
          const state = Object.hasOwn(states, bot.name) ? states[bot.name]! : "waiting";
          const starts = startsOf?.(bot.name) ?? [];
          const several = starts.length > 1 || (starts.length > 0 && bot.root.includes("{"));
          const after = (bot.after ?? []).filter((name) => name !== bot.name);
          const writing = starts.filter((s) => s.state === "writing").length;
          const note = state === "waiting" ? (after.length > 0 ? `after ${after.join(", ")}` : bot.on ? shortTrigger(bot.on) : "waiting")
            : state === "writing" && several ? `${writing} writing`
            : state === "writing" || state === "done" ? timeOf?.(bot.name) || state
            : state;
          const pause = pauseOf?.(bot.name);
          const says = `${state}: ${sayTrigger(bot.on)}. Writes ${bot.format} at ${bot.root || "the root"}.`;
          return (
            <li key={bot.name} class={`stop stop-${state}`}>
              <button type="button" class="stop-row" aria-pressed={selected === undefined ? undefined : bot.name === selected} title={says} disabled={!onSelect} onClick={() => onSelect?.(bot.name)}>
                <span class={`lamp lamp-${state}`} aria-hidden="true" />
                <span class="stop-name" aria-hidden="true">{bot.name}</span>
                <span class="sr">{`${bot.name}, ${says}`}</span>
                <span class="stop-note" aria-hidden="true">{note}</span>
              </button>
              {pause && <p class="stop-pause">{pause}</p>}
              {several && (
                <ul class="stop-starts">
                  {starts.slice(0, most).map((s) => (
                    <li key={s.root} class={`stop-start stop-${s.state}`}>
                      <span class={`lamp lamp-${s.state}`} aria-hidden="true" />
                      <span class="stop-label" dir="auto" title={marked(s.label)}>{marked(s.label)}</span>
                      <span class="stop-note">{s.time}<span class="sr"> {s.state}</span></span>
                    </li>
                  ))}
                  {starts.length > most && <li class="stop-start"><span class="stop-label">{starts.length - most} more</span></li>}
                </ul>
              )}
            </li>
          );
        })}
      </ol>
      {graph.events && graph.events.length > 0 && (
        <ul class="stop-events" aria-label="Events that the workflow sends">
          {graph.events.map((e, i) => <li key={i}><code>{e.name}</code> is sent {sayTrigger(e.on)}</li>)}
        </ul>
      )}
    </>
  );
}
