// The page.

import { useEffect } from "preact/hooks";
import { key, locked } from "./api.js";
import { asked, Bar, details, menu } from "./bar.js";
import { Conversation } from "./conversation.js";
import { sentence } from "./failure.js";
import { UpIcon } from "./icons.js";
import { Instruments, panel } from "./instruments.js";
import type { Live } from "./live.js";
import { visible } from "./parts/text.js";
import { Announcer, standing } from "./run.js";
import { Runs } from "./runs.js";
import { Sidebar } from "./sidebar.js";
import { SignIn } from "./signin.js";
import { agent, catalog, chooseTheme, live, loadCatalog, place, signOut, theme, unreachable, workflow, type Theme } from "./store.js";
import { Progress } from "./stops.js";
import { count, Lamp, Sheet, useMedia, useTick } from "./ui.js";
import { draft, WorkflowView } from "./workflow.js";

export function App() {
  const page = !locked.value && catalog.value;
  return (
    <>
      <Title />
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>Skip to the document</a>
      {!page && <header class="top"><Brand /></header>}
      <Offline />
      {locked.value ? <SignIn /> : page ? <Page /> : <main id="main" class="loading" tabIndex={-1}>{!unreachable.value && <p class="quiet waits">Loading workflows and agents …</p>}</main>}
      <Announcer live={live.value} />
    </>
  );
}

// The tab says where one is, and how it stands: one may look at something else meanwhile.
function Title() {
  const { workflow: name, agent: who, list } = place.value;
  const now = live.value;
  now?.revision.value;
  const at = list ? "Runs" : name ?? who;
  const word = now && (now.over || now.count > 0) ? standing(now).word : "";
  useEffect(() => {
    document.title = [word, at, "Lingserve"].filter(Boolean).join(" · ");
  }, [word, at]);
  return null;
}

function Page() {
  const { workflow: name, agent: who, session, list } = place.value;
  const roomy = useMedia("(min-width: 74rem)");
  const wide = useMedia("(min-width: 60rem)");
  const now = live.value;
  useEffect(() => {
    menu.value = false;
  }, [name, who, session, !list]);
  return (
    <div class="page">
      {roomy ? <Frame /> : <Sheet open={menu.value} from="start" label="Menu" onClose={() => (menu.value = false)}><Frame /></Sheet>}
      {list ? <Runs filter={list} />
        : workflow.value ? <WorkflowView key={"w " + name} workflow={workflow.value} />
        : agent.value ? <Conversation key={"a " + who} agent={agent.value} />
        : <Unknown name={name ?? who} />}
      {list ? null : wide ? <aside class="side" aria-label="Run details" data-open={panel.value || undefined}><Instruments request={draft.value} /></aside> : (
        <>
          <Sheet open={details.value} from="bottom" label="Run details" onClose={() => (details.value = false)}><Asked /><Instruments request={draft.value} /></Sheet>
          <aside class="foot" aria-label="Run summary">
            <button type="button" class="foot-open" aria-haspopup="dialog" onClick={() => (details.value = true)}>
              {now && !agent.value ? <Progress live={now} /> : <span class="progress-words">Bots, metrics, events, code</span>}
              {now && <Tokens live={now} />}
              <UpIcon />
            </button>
          </aside>
        </>
      )}
    </div>
  );
}

// Where the bar has no room for what was asked, it stands in the sheet.
function Asked() {
  const now = asked.value;
  if (!now) return null;
  return (
    <section class="side-asked">
      <h2 class="side-title">Input</h2>
      <p dir="auto">{now.text}</p>
      <button type="button" class="button small" onClick={() => (details.value = false, now.change())}>Change input</button>
    </section>
  );
}

function Tokens({ live: l }: { live: Live }) {
  l.revision.value;
  const n = l.tokens.completion || Math.round(l.characters / 4);
  return n > 0 ? <span class="progress-tokens">{l.tokens.completion > 0 ? "" : "≈ "}{count(n)} {n === 1 ? "token" : "tokens"}</span> : null;
}

// What can be run, and what is of the page itself.
function Frame() {
  return (
    <nav class="frame" aria-label="Workflows and agents">
      <Brand />
      <Sidebar />
      <footer class="frame-foot">
        <Themes />
        <p>
          {key.value !== undefined && !locked.value && <button type="button" class="link" onClick={signOut}>Sign out</button>}
          <a href="/openapi.yaml">API</a>
          <a href="/assets/notices.txt">Licences</a>
          <span title="The server’s version">{catalog.value!.version}</span>
        </p>
      </footer>
    </nav>
  );
}

function Brand() {
  return <a class="brand" href="/" aria-label="Lingserve, start page"><Mark /> Lingserve</a>;
}

function Unknown({ name }: { name: string | undefined }) {
  const some = catalog.value!.workflows.length + catalog.value!.agents.length > 0;
  return (
    <>
      <Bar name={name ?? "Lingserve"} />
      <main id="main" tabIndex={-1}>
        <div class="work">
          <div class="empty empty-document">
            {name ? <p class="empty-lead">This server has no workflow or agent <code>{visible(name)}</code>.</p>
              : some ? <p class="empty-lead">Choose what to run.</p>
              : <><p class="empty-lead">There are no workflows yet.</p><p>Add a YAML file to the folder <code>workflows</code> and restart the server.</p></>}
            {name && <p>Choose another one, or reload the page if you have just added it.</p>}
          </div>
        </div>
      </main>
    </>
  );
}

function Offline() {
  const down = unreachable.value;
  const now = useTick(250, !!down);
  const l = live.value;
  l?.revision.value;
  if (!down || l?.disconnected) return null; // the run says so itself
  const left = Math.max(0, Math.ceil((down.until - now) / 1000));
  const { code, message } = down.why;
  return (
    <div class="notice banner" role="alert">
      <Lamp state="asks" />
      <span>{code === "unreachable" ? "The server cannot be reached." : sentence(message)} {left > 0 ? `Retrying in ${left} s.` : "Retrying …"}</span>
      <button type="button" class="button small" onClick={() => void loadCatalog()}>Retry now</button>
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
