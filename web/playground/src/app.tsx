// The page.

import { useEffect } from "preact/hooks";
import { Conversation } from "./conversation.js";
import { sentence } from "./failure.js";
import { Instruments } from "./instruments.js";
import { Announcer, standing } from "./run.js";
import { key, locked } from "./api.js";
import { Sidebar } from "./sidebar.js";
import { SignIn } from "./signin.js";
import { agent, catalog, chooseTheme, live, loadCatalog, place, signOut, theme, unreachable, workflow, type Theme } from "./store.js";
import { Lamp, useTick } from "./ui.js";
import { draft, WorkflowView } from "./workflow.js";

export function App() {
  return (
    <>
      <Title />
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>Skip to the document</a>
      <header class="top">
        <a class="brand" href="/" aria-label="Lingserve, start page"><Mark /> Lingserve</a>
        <span class="grow" />
        {key.value !== undefined && !locked.value && <button type="button" class="button small" onClick={signOut}>Sign out</button>}
        <Themes />
      </header>
      <Offline />
      {locked.value ? <SignIn /> : catalog.value ? <Page /> : <main id="main" class="loading" tabIndex={-1}>{!unreachable.value && <p class="quiet waits">Asking the server what it has.</p>}</main>}
      <Announcer live={live.value} />
    </>
  );
}

// The tab says where one is, and how it stands: one may look at something else meanwhile.
function Title() {
  const { workflow: name, agent: who } = place.value;
  const now = live.value;
  now?.revision.value;
  const at = name ?? who;
  const word = now && (now.over || now.count > 0) ? standing(now).word : "";
  useEffect(() => {
    document.title = [word, at, "Lingserve"].filter(Boolean).join(" · ");
  }, [word, at]);
  return null;
}

function Page() {
  const { workflow: name, agent: who } = place.value;
  return (
    <div class="page">
      <Sidebar />
      <main id="main" tabIndex={-1}>
        {workflow.value ? <WorkflowView key={"w " + name} workflow={workflow.value} />
          : agent.value ? <Conversation key={"a " + who} agent={agent.value} />
          : <Unknown name={name ?? who} />}
      </main>
      <Instruments request={draft.value} />
    </div>
  );
}

function Unknown({ name }: { name: string | undefined }) {
  const some = catalog.value!.workflows.length + catalog.value!.agents.length > 0;
  return (
    <div class="work">
      <div class="empty empty-document">
        {name ? <p class="empty-lead">This server has no workflow or agent <code>{name}</code>.</p>
          : some ? <p class="empty-lead">Choose what to run.</p>
          : <><p class="empty-lead">There is nothing to run yet.</p><p>Put a workflow into the folder <code>workflows</code>, as YAML, and start the server again.</p></>}
        {name && <p>Choose one that is here, or load the page again if it has just been made.</p>}
      </div>
    </div>
  );
}

function Offline() {
  const down = unreachable.value;
  const now = useTick(250, !!down);
  if (!down) return null;
  const left = Math.max(0, Math.ceil((down.until - now) / 1000));
  const { code, message } = down.why;
  return (
    <div class="notice banner" role="alert">
      <Lamp state="asks" />
      <span>{code === "unreachable" ? "The server cannot be reached." : sentence(message)} {left > 0 ? `Trying again in ${left} s.` : "Trying again …"}</span>
      <button type="button" class="button small" onClick={() => void loadCatalog()}>Now</button>
    </div>
  );
}

const themes: [Theme, string][] = [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]];

function Themes() {
  return (
    <fieldset class="segments themes">
      <legend class="sr">Theme</legend>
      {themes.map(([t, label]) => (
        <label key={t}>
          <input type="radio" name="theme" checked={theme.value === t} onChange={() => chooseTheme(t)} />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="20" height="20" aria-hidden="true">
      <path d="M7 5h5v17h9v5H7z" fill="currentColor" />
      <circle class="mark-dot" cx="24" cy="24.5" r="3" />
    </svg>
  );
}
