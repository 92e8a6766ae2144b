// What there is to choose.

import { useState } from "preact/hooks";
import type { Session } from "./api.js";
import { EventsIcon } from "./icons.js";
import { marked } from "./parts/text.js";
import { agent as chosen, catalog, ended, lives, live, loadSessions, place, sessions } from "./store.js";
import { titleOf } from "./turns.js";
import { ago, day } from "./ui.js";

/** From so many on, they can be filtered. */
const many = 10;

export function Sidebar() {
  const [find, setFind] = useState("");
  const { workflows, agents } = catalog.value!;
  ended.value;
  const at = place.value;
  const fits = (name: string): boolean => name.toLowerCase().includes(find.toLowerCase());
  return (
    <div class="sidebar">
      {workflows.length + agents.length >= many && (
        <label class="field-inline"><span class="sr">Find a workflow or agent</span>
          <input type="search" value={find} placeholder="Find" onInput={(e) => setFind(e.currentTarget.value)} />
        </label>
      )}
      <ul>
        <li><a class="sidebar-runs" href="#list=runs" aria-current={at.list ? "page" : undefined}><EventsIcon /> Runs</a></li>
      </ul>
      <section>
        <h2 class="side-title">Workflows</h2>
        <ul>
          {workflows.filter((w) => fits(w.name)).map((w) => (
            <li key={w.name}><a href={"#workflow=" + encodeURIComponent(w.name)} aria-current={at.workflow === w.name ? "page" : undefined} title={w.description}><span class="sidebar-name">{w.name}</span></a></li>
          ))}
        </ul>
        {workflows.length === 0 && <p class="quiet">None yet. Add a YAML file to the folder <code>workflows</code>.</p>}
      </section>
      {agents.length > 0 && (
        <section>
          <h2 class="side-title">Agents</h2>
          <ul>
            {agents.filter((a) => fits(a.name)).map((a) => (
              <li key={a.name}><a href={"#agent=" + encodeURIComponent(a.name)} aria-current={at.agent === a.name && !at.session ? "page" : at.agent === a.name ? "true" : undefined}><span class="sidebar-name">{a.name}</span></a></li>
            ))}
          </ul>
        </section>
      )}
      {chosen.value && <SessionList name={chosen.value.name} />}
    </div>
  );
}

// The sessions of the agent that is looked at by their dates, then those of the others by agent. One of a server that did not write
// down the agent is opened with the one that is looked at.
function SessionList({ name }: { name: string }) {
  const at = place.value;
  live.value;
  const { list, next } = sessions.value;
  const agents = new Set(catalog.value!.agents.map((a) => a.name));
  const own = list.filter((s) => s.agent === name);
  const unknown = list.filter((s) => !s.agent || !agents.has(s.agent));
  const others = list.filter((s) => s.agent !== name && !unknown.includes(s));
  return (
    <section class="sessions">
      <h2 class="side-title">Sessions</h2>
      <ul>
        <li><a class="new" href={"#agent=" + encodeURIComponent(name)} aria-current={!at.session && lives.value.length === 0 ? "page" : undefined}>New session</a></li>
      </ul>
      {byKey(own, (s) => day(s.updated)).map(([when, all]) => <Group key={when} title={when} agent={name} list={all} />)}
      {byKey(others, (s) => s.agent!).map(([who, all]) => <Group key={"a " + who} title={`With ${who}`} agent={who} list={all} />)}
      {unknown.length > 0 && <Group title={own.length + others.length > 0 ? "Others" : ""} agent={name} list={unknown} />}
      {next && <button type="button" class="link more" onClick={() => void loadSessions(next)}>Older sessions</button>}
    </section>
  );
}

function Group({ title, agent, list }: { title: string; agent: string; list: Session[] }) {
  const at = place.value;
  return (
    <>
      {title && <h3 class="sessions-title">{title}</h3>}
      <ul>
        {list.map((s) => (
          <li key={s.id}>
            <a href={`#agent=${encodeURIComponent(agent)}&session=${encodeURIComponent(s.id)}`} aria-current={at.session === s.id ? "page" : undefined} title={s.id}>
              <span class="session-title" dir="auto">{marked(titleOf(s))}</span> <span class="session-when">{ago(s.updated)}</span>
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

// The members of a list by something that they have in common, in the order in which it comes.
export function byKey<T>(list: readonly T[], of: (item: T) => string): [string, T[]][] {
  const all = new Map<string, T[]>();
  for (const item of list) {
    const key = of(item);
    const known = all.get(key);
    if (known) known.push(item);
    else all.set(key, [item]);
  }
  return [...all];
}
