import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { clip, lanes, layout, order, sayTrigger, shortTrigger, type Layout, type WorkflowGraph } from "./graph/layout.js";

export type { WorkflowGraph } from "./graph/layout.js";

export type BotState = "waiting" | "writing" | "done" | "failed" | "stopped";

export interface GraphProps {
  graph: WorkflowGraph;
  states: Record<string, BotState>;
  onSelect?: (bot: string) => void;
  /** The bot that is looked at. */
  selected?: string;
}

// All in CSS pixels. Names are in a font of one width, so that what fits is known.
const box = { width: 212, height: 58, gapX: 56, gapY: 20 };
const charName = 8.2;
const charSmall = 7.3;

interface Drawn {
  width: number;
  height: number;
  boxes: { x: number; y: number; width: number }[];
  lines: string[];
}

/** The bots of a workflow and what starts them, with what each is doing. */
export function Graph({ graph, states, onSelect, selected }: GraphProps) {
  const ref = useRef<HTMLDivElement>(null);
  const [room, setRoom] = useState(0);
  const [focused, focus] = useState("");
  const id = useId();
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setRoom(Math.floor(entry!.contentRect.width) + 2 * pad));
    observer.observe(ref.current!);
    return () => observer.disconnect();
  }, []);
  const laid = useMemo(() => layout(graph.bots), [graph]);
  const drawn = useMemo(() => draw(laid, graph.bots.length, room || 640), [laid, graph, room]);
  // Where there is no room for all of them, what writes is in sight.
  const scroll = useRef<HTMLDivElement>(null);
  const writing = graph.bots.findIndex((b) => Object.hasOwn(states, b.name) && states[b.name] === "writing");
  useEffect(() => {
    const at = drawn.boxes[writing];
    const el = scroll.current!;
    if (!at) return;
    if (at.y < el.scrollTop || at.y + box.height > el.scrollTop + el.clientHeight) el.scrollTop = at.y - box.gapY;
    if (at.x < el.scrollLeft || at.x + at.width > el.scrollLeft + el.clientWidth) el.scrollLeft = at.x - box.gapX;
  }, [writing, drawn]);
  const stateOf = (name: string): BotState => (Object.hasOwn(states, name) ? states[name]! : "waiting");

  return (
    <div class="graph" ref={ref}>
      <div class="graph-scroll" ref={scroll} role="group" aria-label="The bots, drawn" tabIndex={0}>
        <svg width={drawn.width} height={drawn.height} viewBox={`0 0 ${drawn.width} ${drawn.height}`} aria-hidden="true" focusable="false">
          <defs>
            <marker id={`${id}-tip`} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
              <path d="M1 1 7 4 1 7" class="graph-tip" />
            </marker>
          </defs>
          {laid.edges.map((e, i) => (
            <path
              key={i}
              d={drawn.lines[i]}
              class={`graph-line${e.back ? " graph-back" : ""}${stateOf(graph.bots[e.from]!.name) === "writing" ? " graph-active" : ""}`}
              marker-end={`url(#${id}-tip)`}
            />
          ))}
          {graph.bots.map((b, i) => {
            const { x, y, width } = drawn.boxes[i]!;
            const state = stateOf(b.name);
            return (
              <g
                key={b.name}
                class={`graph-bot graph-${state}${b.name === focused ? " graph-focused" : ""}${b.name === selected ? " graph-selected" : ""}`}
                transform={`translate(${x} ${y})`}
                onClick={onSelect && (() => onSelect(b.name))}
              >
                <title>{`${b.name}: ${sayTrigger(b.on)}, writes ${b.format} at ${b.root || "the root"}`}</title>
                <rect class="graph-ring" x="-4" y="-4" width={width + 8} height={box.height + 8} rx="8" />
                <rect class="graph-box" width={width} height={box.height} rx="5" />
                <Sign state={state} />
                <text class="graph-name" x="34" y="24">
                  {clip(b.name, Math.floor((width - 44 - 56) / charName))}
                </text>
                <text class="graph-state" x={width - 12} y="23.5" text-anchor="end">
                  {state}
                </text>
                <text class="graph-on" x="34" y="43">
                  {clip(shortTrigger(b.on), Math.floor((width - 44) / charSmall))}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      <ul class="graph-list sr" aria-label="Bots">
        {graph.bots.map((b) => {
          const says = `${b.name}, ${stateOf(b.name)}: ${sayTrigger(b.on)}. Writes ${b.format} at ${b.root || "the root"}.`;
          return (
            <li key={b.name}>
              {onSelect ? (
                <button type="button" aria-pressed={selected === undefined ? undefined : b.name === selected} onClick={() => onSelect(b.name)} onFocus={() => focus(b.name)} onBlur={() => focus("")}>
                  {says}
                </button>
              ) : (
                says
              )}
            </li>
          );
        })}
      </ul>
      {graph.events && graph.events.length > 0 && (
        <ul class="graph-events" aria-label="Events that the workflow sends">
          {graph.events.map((e, i) => (
            <li key={i}>
              <code>{e.name}</code> is sent {sayTrigger(e.on)}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

// What a bot is doing, as a shape: an empty circle, a pen's stroke in a ring, a tick, a cross, a dash.
function Sign({ state }: { state: BotState }) {
  return (
    <g class="graph-sign" transform="translate(19 19)">
      {state === "writing" && <circle r="6.5" class="graph-pulse" />}
      <circle r="6.5" />
      {state === "writing" && <circle r="2.5" class="graph-dot" />}
      {state === "done" && <path d="M-3 0.2 -0.8 2.6 3.2 -2.4" />}
      {state === "stopped" && <path d="M-2.8 0H2.8" />}
      {state === "failed" && <path d="M-2.4 -2.4 2.4 2.4M2.4 -2.4-2.4 2.4" />}
    </g>
  );
}

// Layers are columns from left to right while there is room for them, else all is one column and the lines run at its side.
function draw(laid: Layout, bots: number, room: number): Drawn {
  const across = laid.layers.length * (box.width + box.gapX) - box.gapX + 2 * pad;
  if (across <= room || (room >= 640 && laid.layers.length > 1 && bots > laid.layers.length && across <= room * 1.6)) return rows(laid, bots);
  return column(laid, bots, room);
}

const pad = 8; // for the ring around a box

function rows(laid: Layout, bots: number): Drawn {
  const tallest = Math.max(...laid.layers.map((l) => l.length), 1);
  const boxes = Array.from({ length: bots }, (_, i) => {
    const { layer, order } = laid.places[i]!;
    const shift = ((tallest - laid.layers[layer]!.length) * (box.height + box.gapY)) / 2;
    return { x: pad + layer * (box.width + box.gapX), y: pad + shift + order * (box.height + box.gapY), width: box.width };
  });
  const bottom = 2 * pad + tallest * (box.height + box.gapY) - box.gapY;
  let backs = 0;
  const lines = laid.edges.map((e) => {
    const [a, b] = [boxes[e.from]!, boxes[e.to]!];
    const [ay, by] = [a.y + box.height / 2, b.y + box.height / 2];
    if (!e.back) {
      const x1 = a.x + a.width;
      const bend = Math.min(box.gapX * 0.7, (b.x - x1) / 2 + 12);
      return `M${x1} ${ay}C${x1 + bend} ${ay} ${b.x - bend} ${by} ${b.x - 2} ${by}`;
    }
    // Around below all boxes, each a little lower.
    const y = bottom + 6 + 8 * (backs++ % 6);
    const [x1, x2] = [a.x + a.width * 0.7, b.x + b.width * 0.3];
    return `M${x1} ${a.y + box.height}C${x1} ${y + 10} ${x1} ${y} ${(x1 + x2) / 2} ${y}S${x2} ${y + 10} ${x2} ${b.y + box.height + 2}`;
  });
  return {
    width: 2 * pad + laid.layers.length * (box.width + box.gapX) - box.gapX,
    height: bottom + (backs > 0 ? 20 + 8 * Math.min(backs, 6) : 0),
    boxes,
    lines,
  };
}

// All lines of a bot run in one lane at the side, and from there to whatever it starts.
function column(laid: Layout, bots: number, room: number): Drawn {
  const at: number[] = [];
  order(laid).forEach((b, i) => (at[b] = i));
  const leave = (b: number): number => at[b]! + 0.64;
  const enter = (b: number): number => at[b]! + 0.36;
  const sources = [...new Set(laid.edges.map((e) => e.from))];
  const spans = sources.map((b) => {
    const ends = laid.edges.filter((e) => e.from === b).map((e) => enter(e.to));
    return { from: Math.min(leave(b), ...ends), to: Math.max(leave(b), ...ends) };
  });
  const lane = lanes(spans, 6);
  const left = laid.edges.length > 0 ? pad + 14 + 7 * Math.max(...lane) : pad;
  const width = Math.max(200, Math.min(room - left - pad, 480));
  const y = (place: number): number => pad + Math.floor(place) * (box.height + box.gapY) + (place % 1) * box.height;
  const lines = laid.edges.map((e) => {
    const [y1, y2] = [y(leave(e.from)), y(enter(e.to))];
    const out = 14 + 7 * lane[sources.indexOf(e.from)]!;
    const turn = y2 > y1 ? 1 : -1;
    const round = Math.min(8, Math.abs(y2 - y1) / 2);
    return `M${left} ${y1}h${round - out}q${-round} 0 ${-round} ${turn * round}V${y2 - turn * round}q0 ${turn * round} ${round} ${turn * round}H${left - 2}`;
  });
  const boxes = at.map((i) => ({ x: left, y: y(i), width }));
  return { width: left + width + pad, height: 2 * pad + bots * (box.height + box.gapY) - box.gapY, boxes, lines };
}
