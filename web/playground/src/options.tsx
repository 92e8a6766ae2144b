// What can be asked of a run beside its input: the model, and how it writes.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { CommonRequest } from "../../client/src/index.js";
import type { Misfit, Model } from "./api.js";
import { useEscape } from "./ui.js";

export interface Choices {
  model: string;
  temperature: string;
  maxTokens: string;
  exclude: string;
  params: string; // JSON, for workflows
  html: boolean;
  onBusy: "" | "reject" | "interrupt" | "steer";
}

export const noChoices: Choices = { model: "", temperature: "", maxTokens: "", exclude: "", params: "", html: false, onBusy: "" };

// What is no number, or no JSON, is sent as it is: the server says what it had expected.
const number = (text: string): unknown => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The members of a request that choices stand for, without the model. */
export function requestOf(c: Choices, forAgent: boolean): CommonRequest & { params?: any } {
  const options: Record<string, unknown> = {};
  if (c.temperature !== "") options.temperature = number(c.temperature);
  if (c.maxTokens !== "") options.max_tokens = number(c.maxTokens);
  const exclude = c.exclude.split(/[\s,]+/).filter((p) => p !== "");
  return {
    ...(Object.keys(options).length > 0 ? { options } : {}),
    ...(exclude.length > 0 ? { filter: { exclude } } : {}),
    ...(c.params.trim() !== "" && !forAgent ? { params: json(c.params) } : {}),
    ...(c.html && !forAgent ? { html: true } : {}),
    ...(c.onBusy !== "" && forAgent ? { on_busy: c.onBusy } : {}),
  };
}

/** How many of them are not as they are by default. */
export function chosenCount(c: Choices, forAgent: boolean): number {
  return Object.keys(requestOf(c, forAgent)).length;
}

interface Props {
  choices: Choices;
  onChange: (choices: Choices) => void;
  errors: readonly Misfit[];
}

export function ModelChoice({ choices, onChange, models, usual, ofBots = [], errors }: Props & { models: Model[]; usual?: string; ofBots?: string[] }) {
  const id = useId();
  const standard = usual ?? models.find((m) => m.default)?.id;
  const wrong = errors.find((e) => e.pointer?.startsWith("/model"));
  return (
    <div class="field">
      <label for={id}>Model</label>
      <select id={id} class="mono" value={choices.model} aria-invalid={!!wrong} aria-describedby={wrong && id + "-e"} onChange={(e) => onChange({ ...choices, model: e.currentTarget.value })}>
        <option value="">{ofBots.length > 0 ? `As the bots define: ${ofBots.join(", ")}` : standard ? `${standard} (default)` : "Default"}</option>
        {models.filter((m) => ofBots.length > 0 || m.id !== standard).map((m) => <option key={m.id} value={m.id}>{m.id}</option>)}
      </select>
      {wrong && <p class="field-error" id={id + "-e"}>{wrong.detail}</p>}
    </div>
  );
}

export function MoreOptions({ choices, onChange, errors, forAgent, byWorkflow }: Props & { forAgent: boolean; byWorkflow?: boolean }) {
  const n = chosenCount(choices, forAgent);
  const id = useId();
  const wrong = errors.some((e) => /^\/(options|filter|params|html|on_busy)/.test(e.pointer ?? ""));
  const [open, show] = useState(false);
  useEffect(() => {
    if (wrong) show(true);
  }, [wrong]);
  const body = useRef<HTMLDivElement>(null);
  useEscape(open, () => show(false), body);
  return (
    <>
      <button type="button" class="options" aria-expanded={open} aria-controls={id} onClick={() => show(!open)}>Options{n > 0 && <span class="tabs-note">{n}</span>}</button>
      <div class="options-body" id={id} ref={body} hidden={!open}>
        <Text name="Temperature" hint="0 to 2" value={choices.temperature} mode="decimal" pointer="/options/temperature" errors={errors} onInput={(temperature) => onChange({ ...choices, temperature })} />
        <Text name="Token limit" hint="of each answer" value={choices.maxTokens} mode="numeric" pointer="/options/max_tokens" errors={errors} onInput={(maxTokens) => onChange({ ...choices, maxTokens })} />
        <Text name="Exclude" hint="patterns such as article/notes/*" value={choices.exclude} pointer="/filter" errors={errors} onInput={(exclude) => onChange({ ...choices, exclude })} />
        {!forAgent && <Text name="Params" hint='JSON such as {"tone": "playful"}' value={choices.params} pointer="/params" errors={errors} onInput={(params) => onChange({ ...choices, params })} />}
        {forAgent ? <Busy value={choices.onBusy} steers={!byWorkflow} onChange={(onBusy) => onChange({ ...choices, onBusy })} /> : (
          <label class="check">
            <input type="checkbox" checked={choices.html} onChange={(e) => onChange({ ...choices, html: e.currentTarget.checked })} />
            Send an event for each HTML tag
          </label>
        )}
      </div>
    </>
  );
}

function Busy({ value, steers, onChange }: { value: Choices["onBusy"]; steers: boolean; onChange: (value: Choices["onBusy"]) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>If the session is busy</label>
      <select id={id} value={value} onChange={(e) => onChange(e.currentTarget.value as Choices["onBusy"])}>
        <option value="">wait in the queue</option>
        <option value="interrupt">interrupt the current answer</option>
        {steers && <option value="steer">steer the current answer</option>}
        <option value="reject">reject the message</option>
      </select>
    </div>
  );
}

function Text({ name, hint, value, mode, pointer, errors, onInput }: {
  name: string; hint: string; value: string; mode?: "decimal" | "numeric"; pointer: string; errors: readonly Misfit[]; onInput: (value: string) => void;
}) {
  const id = useId();
  const wrong = errors.find((e) => e.pointer === pointer || e.pointer?.startsWith(pointer + "/"));
  return (
    <div class="field">
      <label for={id}>{name} <span class="quiet" id={id + "-h"}>{hint}</span></label>
      <input
        id={id} class="mono" value={value} inputMode={mode} autoComplete="off" spellcheck={false}
        aria-invalid={!!wrong} aria-describedby={wrong ? id + "-e" : id + "-h"} onInput={(e) => onInput(e.currentTarget.value)}
      />
      {wrong && <p class="field-error" id={id + "-e"}>{wrong.detail}</p>}
    </div>
  );
}
