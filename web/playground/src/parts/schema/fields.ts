// What a form asks for, made of a JSON Schema: of those that workflows have for their inputs. What a form cannot ask for in fields
// is JSON to be written by hand, so that every input can be given. The server checks all of it; what is checked here only saves a
// way there.

export type Schema = Record<string, unknown>;

interface Common {
  title: string;
  description: string;
  required: boolean;
  fallback: unknown; // its default
  example: unknown;
}

export interface TextField extends Common {
  kind: "text";
  long: boolean;
  type: "text" | "email" | "url" | "date"; // of the input element
  min: number | undefined;
  max: number | undefined;
}

export interface NumberField extends Common {
  kind: "number";
  whole: boolean;
  min: number | undefined;
  max: number | undefined;
  above: number | undefined; // exclusive bounds
  below: number | undefined;
}

export interface BooleanField extends Common {
  kind: "boolean";
}

export interface ChoiceField extends Common {
  kind: "choice";
  options: { value: unknown; label: string }[];
}

export interface ListField extends Common {
  kind: "list";
  item: Schema | boolean;
  min: number;
  max: number;
}

export interface ObjectField extends Common {
  kind: "object";
  members: { name: string; schema: Schema | boolean; required: boolean }[];
  open: boolean; // others are allowed
}

export interface JSONField extends Common {
  kind: "json";
  expected: string[]; // types; none where any will do
}

export type Field = TextField | NumberField | BooleanField | ChoiceField | ListField | ObjectField | JSONField;

const maxDepth = 8; // of objects and lists in fields; what is deeper is JSON
const maxMembers = 100;

const inputTypes: Record<string, TextField["type"] | undefined> = { email: "email", uri: "url", date: "date" };

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The schema that one refers to, with what it says beside the reference, and all that must hold together as one. */
export function resolve(schema: Schema | boolean, root: Schema, depth = 0): Schema {
  if (typeof schema === "boolean" || !isObject(schema) || depth > 16) return {};
  let out: Schema = schema;
  if (typeof schema.$ref === "string") {
    const { $ref, ...beside } = schema;
    out = { ...resolve(lookup($ref as string, root), root, depth + 1), ...beside };
  }
  if (Array.isArray(out.allOf)) {
    const { allOf, ...beside } = out;
    for (const part of (allOf as Schema[]).map((s) => resolve(s, root, depth + 1))) {
      beside.properties = isObject(part.properties) || isObject(beside.properties) ? { ...(beside.properties as object), ...(part.properties as object) } : undefined;
      beside.required = [...((part.required as string[]) ?? []), ...((beside.required as string[]) ?? [])];
      for (const key in part) if (beside[key] === undefined) beside[key] = part[key];
    }
    out = beside;
  }
  return out;
}

function lookup(ref: string, root: Schema): Schema {
  if (!ref.startsWith("#")) return {};
  let at: unknown = root;
  for (const segment of ref.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(segment).replaceAll("~1", "/").replaceAll("~0", "~");
    if ((!isObject(at) && !Array.isArray(at)) || !Object.hasOwn(at, key)) return {};
    at = (at as Record<string, unknown>)[key];
  }
  return isObject(at) ? at : {};
}

/** The field that a schema asks for. `depth` is how many objects and lists it is in. */
export function field(of: Schema | boolean, root: Schema, required: boolean, depth = 0): Field {
  const s = resolve(of, root);
  const common: Common = {
    title: text(s.title),
    description: text(s.description),
    required,
    fallback: s.default,
    example: Array.isArray(s.examples) ? s.examples[0] : undefined,
  };
  const types = (Array.isArray(s.type) ? (s.type as unknown[]) : [s.type]).filter((t): t is string => typeof t === "string");
  const json: JSONField = { ...common, kind: "json", expected: types };

  const options = choices(s, root);
  if (options) return { ...common, kind: "choice", options };
  if (s.oneOf || s.anyOf || s.if || s.not || s.const !== undefined) return json;
  const named = types.filter((t) => t !== "null");
  const type = named.length > 1 ? "" : (named[0] ?? (isObject(s.properties) ? "object" : ""));
  switch (type) {
    case "string": {
      const max = count(s.maxLength);
      const format = text(s.format);
      const long = !format && s.pattern === undefined && (max === undefined || max > 200);
      return { ...common, kind: "text", long, type: inputTypes[format] ?? "text", min: count(s.minLength), max };
    }
    case "number":
    case "integer":
      return {
        ...common,
        kind: "number",
        whole: type === "integer",
        min: count(s.minimum),
        max: count(s.maximum),
        above: count(s.exclusiveMinimum),
        below: count(s.exclusiveMaximum),
      };
    case "boolean":
      return { ...common, kind: "boolean" };
    case "array":
      if (depth >= maxDepth || s.prefixItems !== undefined || !isObject(s.items)) return json;
      return { ...common, kind: "list", item: s.items, min: count(s.minItems) ?? 0, max: count(s.maxItems) ?? Infinity };
    case "object": {
      const names = isObject(s.properties) ? Object.keys(s.properties) : [];
      if (depth >= maxDepth || names.length === 0 || names.length > maxMembers) return json;
      const must = new Set(Array.isArray(s.required) ? (s.required as unknown[]) : []);
      const members = names.map((name) => ({ name, schema: (s.properties as Record<string, Schema>)[name]!, required: must.has(name) }));
      return { ...common, kind: "object", members, open: s.additionalProperties !== false };
    }
  }
  return json;
}

// The values of a schema that lists them: an enum, or alternatives that are one value each, with a title perhaps.
function choices(s: Schema, root: Schema): ChoiceField["options"] | undefined {
  if (Array.isArray(s.enum) && s.enum.length > 0) return s.enum.map((value) => ({ value, label: label(value) }));
  const list = s.oneOf ?? s.anyOf;
  if (!Array.isArray(list) || list.length === 0) return undefined;
  const each = list.map((one) => resolve(one as Schema, root));
  if (!each.every((one) => Object.hasOwn(one, "const"))) return undefined;
  return each.map((one) => ({ value: one.const, label: text(one.title) || label(one.const) }));
}

function label(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a field shows as its name. */
export function titleOf(f: Field, name: string): string {
  if (f.title) return f.title;
  const words = name.replace(/[_-]+/g, " ").replace(/([a-z\d])([A-Z])/g, "$1 $2").trim();
  return words ? words[0]!.toUpperCase() + words.slice(1) : name;
}

/** What is wrong with a value, as far as can be seen without the server; the empty text where nothing is. */
export function misfit(f: Field, value: unknown): string {
  if (value === undefined) return "";
  switch (f.kind) {
    case "text": {
      if (typeof value !== "string") return "";
      const n = [...value].length;
      if (f.max !== undefined && n > f.max) return `At most ${f.max} characters; these are ${n}.`;
      if (f.min !== undefined && n < f.min) return f.min === 1 ? "Enter some text." : `At least ${f.min} characters; these are ${n}.`;
      return "";
    }
    case "number":
      if (typeof value !== "number") return f.whole ? "Enter a whole number." : "Enter a number.";
      if (f.whole && !Number.isInteger(value)) return "Enter a whole number.";
      if (f.min !== undefined && value < f.min) return `At least ${f.min}.`;
      if (f.max !== undefined && value > f.max) return `At most ${f.max}.`;
      if (f.above !== undefined && value <= f.above) return `More than ${f.above}.`;
      if (f.below !== undefined && value >= f.below) return `Less than ${f.below}.`;
      return "";
    case "list":
      if (!Array.isArray(value)) return "";
      if (value.length < f.min) return f.min === 1 ? "Add at least one." : `Add at least ${f.min}.`;
      if (value.length > f.max) return `At most ${f.max}.`;
      return "";
  }
  return "";
}

/** What a number is that was typed: the text itself where it is none, so that nothing that was typed is lost. */
export function numberOf(typed: string): number | string | undefined {
  const t = typed.trim();
  if (t === "") return undefined;
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(t) && Number.isFinite(Number(t)) ? Number(t) : typed;
}

/** A value with which a new element of a list begins. */
export function blank(f: Field): unknown {
  if (f.fallback !== undefined) return f.fallback;
  if (f.kind === "object") return {};
  if (f.kind === "list") return [];
  if (f.kind === "boolean") return false;
  if (f.kind === "choice") return f.options[0]?.value;
  return f.kind === "text" ? "" : null;
}

/** Returns a value as it is sent: without the rows of lists that nobody has filled in. A list that may be missing is, if no row is left. */
export function withoutBlankRows(of: Schema | boolean, value: any, root = isObject(of) ? of : {}, required = true, depth = 0): any {
  const f = field(of, root, required, depth);
  if (f.kind === "object" && isObject(value)) {
    let out: Record<string, unknown> = value;
    for (const m of f.members) {
      if (!Object.hasOwn(value, m.name)) continue;
      const member = withoutBlankRows(m.schema, value[m.name], root, m.required, depth + 1);
      if (member !== value[m.name]) out = withMember(out, m.name, member);
    }
    return out;
  }
  if (f.kind !== "list" || !Array.isArray(value)) return value;
  const { kind } = field(f.item, root, true, depth + 1);
  const rows = value.map((row: unknown) => withoutBlankRows(f.item, row, root, true, depth + 1));
  const filled = rows.filter((row) => kind === "choice" || !isBlank(row, kind !== "json"));
  if (filled.length === 0 && value.length > 0 && !required) return undefined;
  return filled.length < rows.length || rows.some((row, i) => row !== value[i]) ? filled : value;
}

function isBlank(row: unknown, deep: boolean): boolean {
  if (typeof row === "string") return row.trim() === "";
  return row === undefined || row === null || (deep && typeof row === "object" && Object.values(row).every((member) => isBlank(member, deep)));
}

/** An object with a member set, or without it where the value is undefined; all other members stay, in their order. */
export function withMember(value: unknown, name: string, member: unknown): Record<string, unknown> {
  const out: Record<string, unknown> = { ...(isObject(value) ? value : {}) };
  if (member === undefined) delete out[name];
  else Object.defineProperty(out, name, { value: member, enumerable: true, configurable: true, writable: true }); // "__proto__" is a name, too
  return out;
}

/** A JSON Pointer with one more segment. */
export function below(pointer: string, key: string | number): string {
  return `${pointer}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

export interface FieldError {
  pointer: string;
  detail: string;
}

/** The errors at a place, and those below it that no field of its own shows. */
export function errorsAt(errors: readonly FieldError[], pointer: string, deep: boolean): FieldError[] {
  return errors.filter((e) => e.pointer === pointer || (deep && e.pointer.startsWith(pointer + "/")));
}
