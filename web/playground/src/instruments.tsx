// What stands beside the document: the bots, the figures, the events, the code, the tape.

import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { RunRequest } from "../../client/src/index.js";
import { Code } from "./code.js";
import { Events } from "./events.js";
import type { Live } from "./live.js";
import { Graph } from "./parts/graph.js";
import { Tape } from "./parts/tape.js";
import { described, ended, live, openSession, place } from "./store.js";
import { count, duration, money, size, Tabs, useTick, type Tab } from "./ui.js";

const tab = signal("events");

export function Instruments({ request }: { request: RunRequest | undefined }) {
  const [bot, setBot] = useState<string | undefined>(undefined);
  const now = live.value;
  const session = place.value.agent ? place.value.session : undefined;
  const tabs: Tab[] = [
    {
      id: "events", label: "Events", note: now && <EventCount live={now} />,
      panel: () => <Events live={now} bot={bot} onClearBot={() => setBot(undefined)} />,
    },
    { id: "code", label: "Code", panel: () => <Code request={now?.request ?? request} /> },
  ];
  if (place.value.agent) {
    tabs.push({
      id: "tape", label: "Tape",
      panel: () => session
        ? <Tape session={session} revision={ended.value} onOpen={openSession} onErased={() => openSession()} />
        : <div class="empty"><p>What was said in a session stands on its tape: messages, calls of tools, anchors. It begins with the first message.</p></div>,
    });
  }
  return (
    <aside class="instruments" aria-label="Instruments">
      {described.value?.graph && (
        <section class="panel" aria-label="Bots">
          <h2 class="caps">Bots</h2>
          <BotGraph live={now} selected={bot} onSelect={(name) => { setBot(name === bot ? undefined : name); tab.value = "events"; }} />
        </section>
      )}
      <Figures live={now} />
      <Tabs label="Of this run" tabs={tabs} chosen={tab.value} onChoose={(id) => (tab.value = id)} />
    </aside>
  );
}

function EventCount({ live }: { live: Live }) {
  live.revision.value;
  return <>{count(live.count)}</>;
}

function BotGraph({ live, selected, onSelect }: { live: Live | undefined; selected?: string; onSelect: (bot: string) => void }) {
  live?.revision.value;
  return <Graph graph={described.value!.graph!} states={live?.states() ?? {}} selected={selected ?? ""} onSelect={onSelect} />;
}

function Figures({ live }: { live: Live | undefined }) {
  live?.revision.value;
  const now = useTick(100, !!live && !live.over);
  const rate = live?.rate();
  const none = "–";
  const time = !live || (live.over && live.ended === undefined) ? none : duration(live.elapsed(now));
  const figures: [string, string, string?][] = [
    ["First token", live?.first === undefined ? none : duration(live.first)],
    ["Speed", rate ? `${rate.guessed ? "≈ " : ""}${rate.value.toFixed(rate.value < 10 ? 1 : 0)}` : none, "tokens/s"],
    ["Time", time],
    ["Tokens written", live && live.tokens.completion > 0 ? count(live.tokens.completion) : none],
    ["Tokens read", live && live.tokens.prompt > 0 ? count(live.tokens.prompt) : none],
    ["Cost", live && live.cost > 0 ? money(live.cost) : none],
    ["Received", live ? size(live.bytes) : none],
  ];
  return (
    <dl class="figures" aria-label="Figures">
      {figures.map(([name, value, unit]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd title={value.startsWith("≈") ? "Guessed from the text, until the models’ servers have counted" : undefined}>{value}{unit && value !== none && <span class="unit"> {unit}</span>}</dd>
        </div>
      ))}
    </dl>
  );
}
