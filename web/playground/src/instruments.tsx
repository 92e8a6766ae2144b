// What stands beside the document: the bots and the figures, and what can be opened below them: events, code, the tape.

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import { ask } from "./api.js";
import { Code } from "./code.js";
import { Events } from "./events.js";
import { CodeIcon, EventsIcon, TapeIcon } from "./icons.js";
import type { Live } from "./live.js";
import { ShortId } from "./parts/copy.js";
import { Tape } from "./parts/tape.js";
import { BotStops } from "./stops.js";
import { described, ended, live, openSession, place, say } from "./store.js";
import { count, duration, money, useEscape, useTick } from "./ui.js";

/** Which of the panels is open; "" where none is. */
export const panel = signal<"" | Panel>("");

type Panel = "events" | "code" | "tape";

export function Instruments({ request }: { request: RunRequest | undefined }) {
  const [bot, setBot] = useState<string | undefined>(undefined);
  const now = live.value;
  const session = place.value.agent ? place.value.session : undefined;
  const open = panel.value === "tape" && !place.value.agent ? "" : panel.value;
  const body = useRef<HTMLElement>(null);
  useEscape(open !== "", () => (panel.value = ""), body);
  const panels: { id: Panel; label: string; icon: ComponentChildren; note?: ComponentChildren }[] = [
    { id: "events", label: "Events", icon: <EventsIcon />, note: now && <EventCount live={now} /> },
    { id: "code", label: "Code", icon: <CodeIcon /> },
    ...(place.value.agent ? [{ id: "tape" as const, label: "Tape", icon: <TapeIcon /> }] : []),
  ];
  return (
    <>
      <div class="side-top">
        {described.value?.graph && (
          <section>
            <h2 class="side-title">Bots</h2>
            <BotStops live={now} selected={bot} onSelect={(name) => { setBot(name === bot ? undefined : name); panel.value = "events"; }} />
          </section>
        )}
        <section>
          <h2 class="side-title">Metrics</h2>
          <Figures live={now} />
        </section>
        {session && <Approved agent={place.value.agent!} session={session} revision={ended.value} />}
      </div>
      <div class={"side-panels" + (open ? " open" : "")}>
        {panels.map((p) => (
          <button key={p.id} type="button" class="side-open" aria-expanded={open === p.id} aria-controls={open === p.id ? "panel" : undefined} onClick={() => (panel.value = open === p.id ? "" : p.id)}>
            {p.icon} <span>{p.label}</span> {p.note !== undefined && <span class="side-note">{p.note}</span>}
          </button>
        ))}
        {open && (
          <section class="side-panel" id="panel" ref={body} aria-label={panels.find((p) => p.id === open)?.label}>
            {open === "events" ? <Events live={now} bot={bot} onClearBot={() => setBot(undefined)} />
              : open === "code" ? <Code request={now?.request ?? request} />
              : session ? <Tape session={session} revision={ended.value} onOpen={openSession} onErased={() => openSession()} />
              : <div class="empty"><p>The tape has the messages, tool calls and anchors of the session. It begins with the first message.</p></div>}
          </section>
        )}
      </div>
    </>
  );
}

// The tools that a person has allowed for the session. What is taken back is asked about again.
function Approved({ agent, session, revision }: { agent: string; session: string; revision: number }) {
  const [tools, setTools] = useState<string[]>([]);
  useEffect(() => {
    let current = true;
    const show = (found: { approved?: string[] }): void => {
      if (current) setTools(found.approved ?? []);
    };
    ask<{ approved?: string[] }>("/v1/sessions/" + encodeURIComponent(session)).then(show, () => show({}));
    return () => void (current = false);
  }, [session, revision]);
  if (tools.length === 0) return null;
  return (
    <section aria-label="Allowed for this session">
      <h2 class="side-title">Allowed for this session</h2>
      <ul class="approved">
        {tools.map((tool) => (
          <li key={tool}>
            <code>{tool}</code> <button type="button" class="button small" aria-label={`Ask again before ${tool} runs`} onClick={() => void say({ agent, session, input: ",ask " + tool })}>Ask again</button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function EventCount({ live }: { live: Live }) {
  live.revision.value;
  return <>{count(live.count)}</>;
}

function Figures({ live }: { live: Live | undefined }) {
  live?.revision.value;
  useTick(250, !!live && !live.over);
  const rate = live?.rate();
  const none = "–";
  const figures: [string, string, string?][] = [
    [live?.over === false ? "Speed now" : "Speed", rate ? `${rate.guessed ? "≈ " : ""}${rate.value.toFixed(rate.value < 10 ? 1 : 0)}` : none, "tokens/s"],
    ["First token", live?.first === undefined ? none : duration(live.first)],
    ["Output tokens", live && live.tokens.completion > 0 ? count(live.tokens.completion) : none],
    ["Input tokens", live && live.tokens.prompt > 0 ? count(live.tokens.prompt) : none],
    ["Cost", live && live.cost > 0 ? money(live.cost) : none],
  ];
  const models = live ? [...new Set(live.models.values())] : [];
  return (
    <>
      {live && <Curve live={live} />}
      <dl class="figures" aria-label="Metrics">
        {figures.map(([name, value, unit]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd title={value.startsWith("≈") ? "Estimated from the text until the models’ servers report it" : undefined}>{value}{unit && value !== none && <span class="unit"> {unit}</span>}</dd>
          </div>
        ))}
        {models.length > 0 && <div><dt>{models.length > 1 ? "Models" : "Model"}</dt><dd class="figures-text">{models.join(", ")}</dd></div>}
        {live?.id && <div><dt>Run</dt><dd><ShortId id={live.id} what="the run’s id" /></dd></div>}
      </dl>
    </>
  );
}

// How fast text came, over the time of the run.
function Curve({ live }: { live: Live }) {
  const [width, height] = [248, 32];
  const points = live.pace(60);
  if (points.length < 2) return null;
  const top = Math.max(...points);
  const at = points.map((v, i) => `${((i / (points.length - 1)) * width).toFixed(1)} ${(height - 1 - (v / top) * (height - 4)).toFixed(1)}`);
  return (
    <svg class="curve" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="curve-area" d={`M0 ${height}L${at.join("L")}L${width} ${height}Z`} />
      <path class="curve-line" d={`M${at.join("L")}`} vector-effect="non-scaling-stroke" />
    </svg>
  );
}
