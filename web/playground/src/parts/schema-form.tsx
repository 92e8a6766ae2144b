import { createElement, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import {
  below,
  blank,
  errorsAt,
  field,
  isObject,
  misfit,
  numberOf,
  titleOf,
  withMember,
  type ChoiceField,
  type Field,
  type FieldError,
  type JSONField,
  type ListField,
  type NumberField,
  type ObjectField,
  type Schema,
  type TextField,
} from "./schema/fields.js";

export type { FieldError } from "./schema/fields.js";

export interface SchemaFormProps {
  schema: Schema | boolean;
  value: any;
  onChange: (value: any) => void;
  /** What the server had to say, by JSON Pointers of which `at` is the place of this form's value. */
  errors?: readonly { pointer?: string; detail: string }[];
  /** Where the value stands in what the pointers point into, as in "/input". */
  at?: string;
  /** Begins the ids of all elements: that of a property's field is `prefix/name`, as in a uri. */
  idPrefix: string;
}

/** A form for a value that fits a schema. It is no <form>: whoever has it around decides what sending means. */
export function SchemaForm({ schema, value, onChange, errors = [], at = "", idPrefix }: SchemaFormProps) {
  const root = isObject(schema) ? schema : {};
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (errors.length > 0) ref.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [errors]);
  const f = field(schema, root, true);
  const placed = errors.filter((e): e is FieldError => e.pointer !== undefined);
  return (
    <div class="form" ref={ref}>
      <Any field={f} name="input" root={root} value={value} onChange={onChange} errors={placed} pointer={at} id={idPrefix} depth={0} />
    </div>
  );
}

interface Props<F extends Field = Field> {
  field: F;
  name: string;
  root: Schema;
  value: unknown;
  onChange: (value: any) => void;
  errors: readonly FieldError[];
  pointer: string;
  id: string;
  depth: number;
  onRemove?: () => void; // of an element of a list
}

function Any(p: Props) {
  const { field: f, value } = p;
  // What a value is decides before what it should be: nothing that is there gets lost because no field of the form can show it.
  if (value !== undefined) {
    if (f.kind === "object" && !isObject(value)) return <JSONInput {...p} field={{ ...f, kind: "json", expected: ["object"] }} />;
    if (f.kind === "list" && !Array.isArray(value)) return <JSONInput {...p} field={{ ...f, kind: "json", expected: ["array"] }} />;
    if (f.kind === "text" && typeof value !== "string") return <JSONInput {...p} field={{ ...f, kind: "json", expected: ["string"] }} />;
  }
  switch (f.kind) {
    case "text":
      return <TextInput {...p} field={f} />;
    case "number":
      return <NumberInput {...p} field={f} />;
    case "boolean":
      return <BooleanInput {...p} />;
    case "choice":
      return <ChoiceInput {...p} field={f} />;
    case "list":
      return <ListInput {...p} field={f} />;
    case "object":
      return <ObjectInput {...p} field={f} />;
    case "json":
      return <JSONInput {...p} field={f} />;
  }
}

/** What stands around an input: its label, what it is for, and what is wrong with it. */
function Labelled({ p, hint, wrong, children }: { p: Props; hint?: ComponentChildren; wrong: string[]; children: ComponentChildren }) {
  const { field: f, id } = p;
  return (
    <div class="form-field">
      <div class="form-label">
        <label for={id}>
          {titleOf(f, p.name)}
          {f.required && p.onRemove === undefined && <Required />}
        </label>
        {f.example !== undefined && isBlank(p.value) && (
          <button type="button" class="part-quiet" onClick={() => p.onChange(f.example)} aria-label={`Use example for ${titleOf(f, p.name)}`}>
            Use example
          </button>
        )}
        {p.onRemove && <Remove p={p} />}
      </div>
      {(f.description || hint) && (
        <p class="form-hint" id={`${id}:hint`}>
          {f.description}
          {f.description && hint && " "}
          {hint}
        </p>
      )}
      {children}
      <Wrong id={`${id}:error`} wrong={wrong} />
    </div>
  );
}

function isBlank(value: unknown): boolean {
  return value === undefined || value === "" || value === null;
}

function Required() {
  return (
    <span class="form-required" title="required">
      <span aria-hidden="true"> *</span>
      <span class="sr"> (required)</span>
    </span>
  );
}

function Remove({ p }: { p: Props }) {
  return (
    <button type="button" class="part-quiet" onClick={p.onRemove} aria-label={`Remove ${titleOf(p.field, p.name)}`}>
      Remove
    </button>
  );
}

function Wrong({ id, wrong }: { id: string; wrong: string[] }) {
  if (wrong.length === 0) return null;
  return (
    <div class="form-error" id={id}>
      {wrong.map((w) => (
        <p>{w}</p>
      ))}
    </div>
  );
}

// Calls fn when no button is pressed: what appears while somebody presses one moves it away from under the pointer, and there is
// no click.
function released(fn: () => void): void {
  if (!document.querySelector(":active")) return fn();
  const once = new AbortController();
  const done = (): void => {
    once.abort();
    setTimeout(fn); // behind the click
  };
  addEventListener("pointerup", done, { signal: once.signal });
  addEventListener("pointercancel", done, { signal: once.signal });
}

function sentence(detail: string): string {
  if (detail === "this property is required") return "This is required."; // a field is no property to who fills it
  return detail.slice(0, 1).toUpperCase() + detail.slice(1) + (/[.?!…]$/.test(detail) ? "" : ".");
}

// What is wrong at a place: what the server said, or else what can be seen here once somebody has been in the field.
function wrongWith(p: Props, touched: boolean, deep = false): string[] {
  const said = errorsAt(p.errors, p.pointer, deep).map((e) => {
    const rest = e.pointer.slice(p.pointer.length + 1);
    return rest ? `${rest}: ${e.detail}` : sentence(e.detail);
  });
  if (said.length > 0) return said;
  const own = touched ? misfit(p.field, p.value) : "";
  return own ? [own] : [];
}

function described(p: Props, hint: boolean, wrong: string[]): { "aria-describedby"?: string; "aria-invalid"?: "true" } {
  const by = [hint && `${p.id}:hint`, wrong.length > 0 && `${p.id}:error`].filter(Boolean).join(" ");
  return { ...(by && { "aria-describedby": by }), ...(wrong.length > 0 && { "aria-invalid": "true" }) };
}

function placeholder(f: Field): string | undefined {
  if (typeof f.fallback === "string" || typeof f.fallback === "number") return String(f.fallback);
  if (typeof f.example === "string" || typeof f.example === "number") return `e.g. ${f.example}`;
  return undefined;
}

function TextInput(p: Props<TextField>) {
  const { field: f, id, value } = p;
  const [touched, touch] = useState(false);
  const wrong = wrongWith(p, touched);
  const hint = f.fallback !== undefined ? "Default: " + String(f.fallback) : undefined;
  const common = {
    id,
    value: (value as string | undefined) ?? "",
    placeholder: placeholder(f),
    "aria-required": f.required || undefined,
    onInput: (e: Event) => {
      const text = (e.currentTarget as HTMLInputElement).value;
      p.onChange(text === "" && !f.required ? undefined : text);
    },
    onBlur: () => released(() => touch(true)),
    ...described(p, !!f.description || !!hint, wrong),
  };
  return (
    <Labelled p={p} hint={hint} wrong={wrong}>
      {f.long ? <textarea {...common} rows={2} dir="auto" /> : createElement("input", { ...common, type: f.type, dir: f.type === "text" ? "auto" : undefined, autocomplete: "off" } as object)}
    </Labelled>
  );
}

function NumberInput(p: Props<NumberField>) {
  const { field: f, id, value } = p;
  const shown = value === undefined || value === null ? "" : String(value);
  const [typed, type] = useState(shown);
  const [touched, touch] = useState(false);
  // What was typed stays as it is while it means the value: "1." is not made "1" under the fingers.
  const text = numberOf(typed) === (value ?? undefined) ? typed : shown;
  const wrong = wrongWith(p, touched);
  const hint = bounds(f);
  return (
    <Labelled p={p} hint={hint} wrong={wrong}>
      <input
        id={id}
        type="text"
        inputMode={f.whole ? "numeric" : "decimal"}
        autocomplete="off"
        value={text}
        placeholder={placeholder(f)}
        aria-required={f.required || undefined}
        onInput={(e) => {
          type(e.currentTarget.value);
          p.onChange(numberOf(e.currentTarget.value));
        }}
        onBlur={() => released(() => touch(true))}
        {...described(p, !!f.description || !!hint, wrong)}
      />
    </Labelled>
  );
}

function bounds(f: NumberField): string | undefined {
  const from = f.min ?? f.above;
  const to = f.max ?? f.below;
  const what = f.whole ? "A whole number" : "A number";
  const used = f.fallback !== undefined ? ` Default: ${String(f.fallback)}` : "";
  if (from !== undefined && to !== undefined) return `${what} from ${from} to ${to}.${used}`;
  if (from !== undefined) return `${what}, ${f.min === undefined ? "more than" : "at least"} ${from}.${used}`;
  if (to !== undefined) return `${what}, ${f.max === undefined ? "less than" : "at most"} ${to}.${used}`;
  return f.whole ? `A whole number.${used}` : used.trim() || undefined;
}

function BooleanInput(p: Props) {
  const { field: f, id, value } = p;
  const wrong = wrongWith(p, true);
  return (
    <div class="form-field">
      <div class="form-check">
        <input
          id={id}
          type="checkbox"
          checked={(value ?? f.fallback) === true}
          onChange={(e) => p.onChange(e.currentTarget.checked)}
          {...described(p, !!f.description, wrong)}
        />
        <label for={id}>
          {titleOf(f, p.name)}
          {f.required && p.onRemove === undefined && <Required />}
        </label>
        {p.onRemove && <Remove p={p} />}
      </div>
      {f.description && (
        <p class="form-hint" id={`${id}:hint`}>
          {f.description}
        </p>
      )}
      <Wrong id={`${id}:error`} wrong={wrong} />
    </div>
  );
}

function ChoiceInput(p: Props<ChoiceField>) {
  const { field: f, id, value } = p;
  const wrong = wrongWith(p, true);
  const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
  const standard = f.fallback === undefined ? undefined : f.options.find((o) => same(o.value, f.fallback));
  // What counts where nothing is chosen is there once, as that.
  const usual = standard && !f.required ? f.options.indexOf(standard) : -1;
  const at = value === undefined ? -1 : f.options.findIndex((o) => same(o.value, value));
  const chosen = at === usual ? -1 : at;
  return (
    <Labelled p={p} wrong={wrong}>
      <select
        id={id}
        value={String(chosen)}
        aria-required={f.required || undefined}
        onChange={(e) => {
          const at = Number(e.currentTarget.value);
          if (at >= 0) p.onChange(f.options[at]!.value);
          else if (at === -1) p.onChange(undefined);
        }}
        {...described(p, !!f.description, wrong)}
      >
        {(!f.required || value === undefined) && <option value="-1">{standard ? `${standard.label} (default)` : f.required ? "Choose …" : "Not set"}</option>}
        {value !== undefined && at < 0 && <option value="-1">{JSON.stringify(value)} (not one of these)</option>}
        {f.options.map((o, i) => i !== usual && <option key={i} value={String(i)}>{o.label}</option>)}
      </select>
    </Labelled>
  );
}

function ListInput(p: Props<ListField>) {
  const { field: f, id, pointer } = p;
  const list = (p.value as unknown[] | undefined) ?? [];
  const item = field(f.item, p.root, true, p.depth + 1);
  const ref = useRef<HTMLFieldSetElement>(null);
  const [added, add] = useState(-1);
  useLayoutEffect(() => {
    if (added >= 0) ref.current?.querySelector<HTMLElement>(`[id="${CSS.escape(`${id}/${added}`)}"], [id^="${CSS.escape(`${id}/${added}/`)}"]`)?.focus();
  }, [added]);
  const wrong = wrongWith(p, p.value !== undefined);
  const set = (next: unknown[]): void => p.onChange(next.length === 0 && !f.required ? undefined : next);
  return (
    <fieldset class="form-group" ref={ref} {...described(p, !!f.description, wrong)}>
      <legend>
        {titleOf(f, p.name)}
        {f.required && <Required />}
      </legend>
      {p.onRemove && <Remove p={p} />}
      {f.description && (
        <p class="form-hint" id={`${id}:hint`}>
          {f.description}
        </p>
      )}
      {list.map((element, i) => (
        <Any
          key={i}
          field={{ ...item, title: `${item.title || titleOf(f, p.name)} ${i + 1}` }}
          name=""
          root={p.root}
          value={element}
          onChange={(v) => set(list.map((old, j) => (j === i ? (v === undefined ? blank(item) : v) : old)))}
          errors={p.errors}
          pointer={below(pointer, i)}
          id={`${id}/${i}`}
          depth={p.depth + 1}
          onRemove={() => set(list.filter((_, j) => j !== i))}
        />
      ))}
      {list.length < f.max && (
        <button
          type="button"
          class="form-add"
          onClick={() => {
            set([...list, blank(item)]);
            add(list.length);
          }}
        >
          Add {item.title.toLowerCase() || "one"}
          <span class="sr"> to {titleOf(f, p.name)}</span>
        </button>
      )}
      <Wrong id={`${id}:error`} wrong={wrong} />
    </fieldset>
  );
}

function ObjectInput(p: Props<ObjectField>) {
  const { field: f, id, pointer, value } = p;
  const known = new Set(f.members.map((m) => m.name));
  const others = isObject(value) ? Object.fromEntries(Object.entries(value).filter(([name]) => !known.has(name))) : {};
  // An error at a property that the form does not have is one of the whole.
  const lost = p.errors.filter((e) => e.pointer.startsWith(pointer + "/") && !f.members.some((m) => under(e.pointer, below(pointer, m.name))));
  const wrong = [...wrongWith(p, false), ...lost.map((e) => `${e.pointer.slice(pointer.length + 1)}: ${e.detail}`)];
  const fields = (
    <>
      {f.members.map((m) => (
        <Any
          key={m.name}
          field={field(m.schema, p.root, m.required, p.depth + 1)}
          name={m.name}
          root={p.root}
          value={isObject(value) && Object.hasOwn(value, m.name) ? value[m.name] : undefined}
          onChange={(v) => {
            const next = withMember(value, m.name, v);
            p.onChange(p.depth > 0 && !f.required && Object.keys(next).length === 0 ? undefined : next);
          }}
          errors={p.errors}
          pointer={below(pointer, m.name)}
          id={`${id}/${encodeURIComponent(m.name)}`}
          depth={p.depth + 1}
        />
      ))}
      {(f.open || Object.keys(others).length > 0) && (
        <Others others={others} id={`${id}:others`} onChange={(next) => p.onChange({ ...Object.fromEntries(Object.entries(isObject(value) ? value : {}).filter(([n]) => known.has(n))), ...next })} />
      )}
    </>
  );
  if (p.depth === 0) {
    return (
      <>
        {wrong.length > 0 && (
          <div role="alert">
            <Wrong id={`${id}:error`} wrong={wrong} />
          </div>
        )}
        {fields}
      </>
    );
  }
  return (
    <fieldset class="form-group" {...described(p, !!f.description, wrong)}>
      <legend>
        {titleOf(f, p.name)}
        {f.required && p.onRemove === undefined && <Required />}
      </legend>
      {p.onRemove && <Remove p={p} />}
      {f.description && (
        <p class="form-hint" id={`${id}:hint`}>
          {f.description}
        </p>
      )}
      {fields}
      <Wrong id={`${id}:error`} wrong={wrong} />
    </fieldset>
  );
}

function under(pointer: string, place: string): boolean {
  return pointer === place || pointer.startsWith(place + "/");
}

// Properties that the schema does not name.
function Others({ others, id, onChange }: { others: Record<string, unknown>; id: string; onChange: (v: Record<string, unknown>) => void }) {
  const n = Object.keys(others).length;
  return (
    <details class="form-others" open={n > 0}>
      <summary>Other properties{n > 0 && ` (${n})`}</summary>
      <JSONText id={id} label="Other properties" value={n > 0 ? others : undefined} expected={["object"]} onChange={(v) => onChange(isObject(v) ? v : {})} strict />
    </details>
  );
}

function JSONInput(p: Props<JSONField>) {
  const wrong = wrongWith(p, false, true);
  return (
    <Labelled p={p} hint={`As JSON${p.field.expected.length > 0 ? `: ${p.field.expected.join(" or ")}` : ""}.`} wrong={wrong}>
      <JSONText id={p.id} value={p.value} expected={p.field.expected} onChange={p.onChange} describe={described(p, true, wrong)} required={p.field.required} />
    </Labelled>
  );
}

interface JSONTextProps {
  id: string;
  label?: string;
  value: unknown;
  expected: string[];
  onChange: (value: unknown) => void;
  describe?: { "aria-describedby"?: string; "aria-invalid"?: "true" };
  required?: boolean;
  strict?: boolean; // only what fits is handed on
}

// JSON as a text. While what is typed is no JSON it is kept here, and the value stays what it was.
function JSONText({ id, label, value, expected, onChange, describe = {}, required, strict }: JSONTextProps) {
  const [draft, setDraft] = useState<{ text: string; value: unknown } | undefined>();
  const text = draft && JSON.stringify(draft.value) === JSON.stringify(value) ? draft.text : value === undefined ? "" : JSON.stringify(value, undefined, 2);
  const problem = text.trim() === "" ? "" : jsonProblem(text, expected);
  const by = [describe["aria-describedby"], problem && `${id}:json`].filter(Boolean).join(" ");
  return (
    <>
      <textarea
        id={id}
        class="form-json"
        rows={3}
        spellcheck={false}
        value={text}
        aria-label={label}
        aria-required={required || undefined}
        aria-describedby={by || undefined}
        aria-invalid={problem || describe["aria-invalid"] ? "true" : undefined}
        onInput={(e) => {
          const typed = e.currentTarget.value;
          let next = value;
          if (typed.trim() === "") next = undefined;
          else if (strict ? !jsonProblem(typed, expected) : isJSON(typed)) next = JSON.parse(typed);
          setDraft({ text: typed, value: next });
          if (next !== value) onChange(next);
        }}
      />
      {problem && (
        <p class="form-error" id={`${id}:json`}>
          {problem}
        </p>
      )}
    </>
  );
}

function isJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function jsonProblem(text: string, expected: string[]): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "This is not valid JSON yet. Strings need double quotes, as in {\"town\": \"Rome\"}.";
  }
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const fits = expected.length === 0 || expected.includes(type) || (expected.includes("integer") && Number.isInteger(value));
  return fits ? "" : `Expected ${expected.join(" or ")}, this is ${type}.`;
}
