// The list of runs, the newest first.

import { useEffect, useRef } from "preact/hooks";
import { Bar } from "./bar.js";
import { FailureBox } from "./failure.js";
import { AgainIcon } from "./icons.js";
import { addressOf, beganAt, choices, elapsedOf, goesOn, loadRuns, page, scaleOf, statusOf, updateRuns, type ListedRun } from "./history.js";
import { marked } from "./parts/text.js";
import type { RunFilter } from "./place.js";
import { byKey } from "./sidebar.js";
import { catalog, filterRuns } from "./store.js";
import { day, duration, Lamp, useTick } from "./ui.js";

/** How often the server is asked about runs that go on, in ms. */
const updateEvery = 3000;

export function Runs({ filter }: { filter: RunFilter }) {
  const { runs, next, loading, failed } = page.value;
  const list = useRef<HTMLDivElement>(null);
  const { workflow, agent, status } = filter;
  const going = runs.some(goesOn);
  const now = useTick(1000, going);
  useEffect(() => {
    page.value = { runs: [], loading: true }; // if the new ones cannot be loaded, the old ones do not fit the filter
    void loadRuns(filter);
  }, [workflow, agent, status]);
  useEffect(() => {
    if (!going) return;
    const timer = setInterval(() => document.visibilityState === "visible" && void updateRuns(filter), updateEvery);
    return () => clearInterval(timer);
  }, [going, workflow, agent, status]);
  const links = (): HTMLElement[] => [...list.current!.querySelectorAll<HTMLElement>(".runs-name a")];
  const more = async (): Promise<void> => {
    const before = links().length;
    // The button may be gone, so the first new run has the focus.
    if ((await loadRuns(filter, true)) > 0) requestAnimationFrame(() => links()[before]?.focus());
  };
  const move = (e: KeyboardEvent): void => {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[e.key];
    if (!step || e.ctrlKey || e.metaKey || e.altKey) return;
    const all = links();
    const to = all[all.indexOf(document.activeElement as HTMLElement) + step];
    if (to) (e.preventDefault(), to.focus());
  };
  return (
    <>
      <Bar name="Runs">
        <button type="button" class="button" onClick={() => void loadRuns(filter)}><AgainIcon /> Refresh</button>
      </Bar>
      <main id="main" tabIndex={-1}>
        <Filters filter={filter} />
        <p class="sr" role="status">{loading ? "" : `${runs.length === 0 ? "No" : runs.length} ${runs.length === 1 ? "run" : "runs"}${next ? ", and more" : ""}`}</p>
        {failed && <div class="runs-notice"><FailureBox failure={failed} again={() => void loadRuns(filter)} /></div>}
        <div ref={list} onKeyDown={move} aria-busy={loading}>
          {runs.length > 0 ? <Table runs={runs} now={now} /> : !loading && !failed && <None filter={filter} />}
        </div>
        {runs.length > 0 && (
          <p class="runs-foot">
            {next && <button type="button" class="button" disabled={loading} onClick={() => void more()}>{loading ? "Loading …" : "More runs"}</button>}
            <span class="runs-keys"><kbd>J</kbd> <kbd>K</kbd> move <kbd>↵</kbd> open</span>
          </p>
        )}
      </main>
    </>
  );
}

function Filters({ filter }: { filter: RunFilter }) {
  const { workflows, agents } = catalog.value!;
  const { workflow, agent, status } = filter;
  const of = workflow ? "w" + workflow : agent ? "a" + agent : "";
  const choose = (value: string): void => filterRuns({ status, [value[0] === "a" ? "agent" : "workflow"]: value.slice(1) || undefined });
  // A name of the address that the server does not have is a choice, too: else another one would seem to be chosen.
  const options = (kind: string, all: { name: string }[], current?: string): string[] => [...new Set([...all.map((x) => x.name), ...(current ? [current] : [])])].map((name) => kind + name);
  return (
    <search class="runs-filters" aria-label="Filter the runs">
      <label class="field-inline"><span class="sr">Workflow or agent</span>
        <select value={of} onChange={(e) => choose(e.currentTarget.value)}>
          <option value="">All workflows and agents</option>
          <optgroup label="Workflows">{options("w", workflows, workflow).map((v) => <option key={v} value={v}>{v.slice(1)}</option>)}</optgroup>
          {(agents.length > 0 || agent) && <optgroup label="Agents">{options("a", agents, agent).map((v) => <option key={v} value={v}>{v.slice(1)}</option>)}</optgroup>}
        </select>
      </label>
      <fieldset class="segments">
        <legend class="sr">Status</legend>
        {[undefined, ...Object.keys(choices)].map((choice) => (
          <label key={choice}>
            <input type="radio" name="status" checked={status === choice} onChange={() => filterRuns({ ...filter, status: choice })} />
            <span>{choice ? <><Lamp state={statusOf(choice).lamp} /> {statusOf(choice).word}</> : "All"}</span>
          </label>
        ))}
      </fieldset>
    </search>
  );
}

// Roles are written out: on phones the rows are no table to a browser.
function Table({ runs, now }: { runs: ListedRun[]; now: number }) {
  const scale = scaleOf(runs.map((r) => elapsedOf(r, now)));
  const owners = runs.some((r) => r.owner && r.owner !== "local");
  return (
    <table class={"runs" + (owners ? " runs-owned" : "")} role="table" aria-label="Runs">
      <thead role="rowgroup">
        <tr role="row">
          {["Workflow, agent", "Session", ...(owners ? ["Owner"] : []), "Status", "Began", "Duration"].map((title) => <th key={title} role="columnheader" scope="col">{title}</th>)}
        </tr>
      </thead>
      {byKey(runs, (r) => day(r.created)).map(([when, list]) => (
        <tbody key={when} role="rowgroup">
          <tr class="runs-day" role="row"><th role="rowheader" scope="rowgroup" colSpan={owners ? 6 : 5}>{when}</th></tr>
          {list.map((r) => <Row key={r.id} run={r} now={now} scale={scale} owners={owners} />)}
        </tbody>
      ))}
    </table>
  );
}

function Row({ run, now, scale, owners }: { run: ListedRun; now: number; scale: number; owners: boolean }) {
  const { word, lamp } = statusOf(run.status);
  const { workflows, agents } = catalog.value!;
  const address = addressOf(run, (kind, name) => (kind === "agent" ? agents : workflows).some((x) => x.name === name));
  const name = marked(run.agent ?? run.workflow ?? "run");
  const ms = elapsedOf(run, now);
  return (
    <tr role="row" class={`runs-row runs-${lamp}${run.session ? " runs-remembered" : ""}`}>
      <td role="cell" class="runs-name">
        <Lamp state={lamp} />
        {address ? <a href={address}>{name}</a> : <span title="This server no longer has it, so the page cannot show the run.">{name}</span>}
      </td>
      <td role="cell" class="runs-session"><span dir="auto">{marked(run.session ?? "")}</span></td>
      {owners && <td role="cell" class="runs-owner">{marked(run.owner ?? "")}</td>}
      <td role="cell" class="runs-status">{word}</td>
      <td role="cell" class="runs-began"><time dateTime={run.created} title={new Date(run.created).toLocaleString()}>{beganAt(run.created)}</time></td>
      <td role="cell" class="runs-time">
        <div><span class={"runs-bar" + (ms > scale ? " runs-long" : "")} aria-hidden="true"><span style={{ width: `${Math.min(100, Math.max(1.5, (100 * ms) / scale))}%` }} /></span>
        <span>{duration(goesOn(run) ? Math.max(1000, Math.floor(ms / 1000) * 1000) : ms)}</span></div>
      </td>
    </tr>
  );
}

function None({ filter }: { filter: RunFilter }) {
  const { workflow, agent, status } = filter;
  const of = workflow ?? agent;
  if (!of && !status) return <div class="empty runs-none"><p class="empty-lead">No runs yet</p><p>Each run of a workflow or an agent is listed here, as long as the server stores it.</p></div>;
  return (
    <div class="empty runs-none">
      <p class="empty-lead">No run fits all of this</p>
      <p>The server stores no {status} run{of && <> of <code>{marked(of)}</code></>}.</p>
      <p>{status && of && <button type="button" class="button" onClick={() => filterRuns({ workflow, agent })}>Any status</button>} <button type="button" class="button" onClick={() => filterRuns({})}>Clear all</button></p>
    </div>
  );
}
