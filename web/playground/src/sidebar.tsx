// What there is to choose.

import { useEffect, useRef, useState } from "preact/hooks";
import { agent, catalog, ended, lives, live, loadSessions, place, sessions } from "./store.js";
import { ago } from "./ui.js";

/** From so many on, they can be filtered. */
const many = 10;

export function Sidebar() {
  const [find, setFind] = useState("");
  const { workflows, agents, version } = catalog.value!;
  ended.value;
  const at = place.value;
  const fits = (name: string): boolean => name.toLowerCase().includes(find.toLowerCase());
  // Where there is little room the lists are rows, and what is chosen may stand outside.
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    for (const link of nav.current!.querySelectorAll<HTMLElement>("[aria-current]")) {
      const row = link.closest("ul")!;
      row.scrollLeft += link.getBoundingClientRect().left - row.getBoundingClientRect().left - (row.clientWidth - link.offsetWidth) / 2;
    }
  }, [at.workflow, at.agent, at.session]);
  return (
    <nav class="sidebar" aria-label="What can be run" ref={nav}>
      {workflows.length + agents.length >= many && (
        <label class="field-inline"><span class="sr">Find a workflow or agent</span>
          <input type="search" value={find} placeholder="Find" onInput={(e) => setFind(e.currentTarget.value)} />
        </label>
      )}
      <section>
        <h2 class="caps">Workflows</h2>
        <ul>
          {workflows.filter((w) => fits(w.name)).map((w) => (
            <li key={w.name}><a href={"#workflow=" + encodeURIComponent(w.name)} aria-current={at.workflow === w.name ? "page" : undefined} title={w.description}><span class="sidebar-name">{w.name}</span></a></li>
          ))}
        </ul>
        {workflows.length === 0 && <p class="quiet">None. Put a YAML file into the folder <code>workflows</code>.</p>}
      </section>
      {agents.length > 0 && (
        <section>
          <h2 class="caps">Agents</h2>
          <ul>
            {agents.filter((a) => fits(a.name)).map((a) => (
              <li key={a.name}><a href={"#agent=" + encodeURIComponent(a.name)} aria-current={at.agent === a.name && !at.session ? "page" : at.agent === a.name ? "true" : undefined}><span class="sidebar-name">{a.name}</span></a></li>
            ))}
          </ul>
        </section>
      )}
      {agent.value && <SessionList name={agent.value.name} />}
      <footer class="sidebar-foot">
        <a href="/openapi.yaml">API</a>
        <a href="/assets/notices.txt">Licences</a>
        <span title="The server’s version">{version}</span>
      </footer>
    </nav>
  );
}

function SessionList({ name }: { name: string }) {
  const at = place.value;
  live.value;
  const { list, next } = sessions.value;
  return (
    <section class="sessions">
      <h2 class="caps">Sessions</h2>
      <ul>
        <li><a class="new" href={"#agent=" + encodeURIComponent(name)} aria-current={!at.session && lives.value.length === 0 ? "page" : undefined}>New session</a></li>
        {list.map((s) => (
          <li key={s.id}>
            <a href={`#agent=${encodeURIComponent(name)}&session=${encodeURIComponent(s.id)}`} aria-current={at.session === s.id ? "page" : undefined} title={s.id}>
              <span class="session-title">{s.title || s.id}</span> <span class="session-when">{ago(s.updated)}</span>
            </a>
          </li>
        ))}
        {next && <li><button type="button" class="link more" onClick={() => void loadSessions(next)}>Older sessions</button></li>}
      </ul>
    </section>
  );
}
