// Where tests put parts to look at them: one part at a time, with props that can be changed.
import { options, render, type ComponentType } from "preact";
import { useState } from "preact/hooks";
import { Approval } from "../../src/parts/approval.js";
import { Markdown } from "../../src/parts/markdown.js";
import { Reading } from "../../src/parts/reading.js";
import { SchemaForm } from "../../src/parts/schema-form.js";
import { Stops } from "../../src/parts/stops.js";
import { Tape } from "../../src/parts/tape.js";
import { DocumentTree } from "../../src/parts/tree.js";

const parts: Record<string, ComponentType<any>> = { Approval, Markdown, Reading, SchemaForm: Form, Stops, Tape, DocumentTree };

// A form whose value is kept, and can be looked at.
function Form({ value, ...props }: any) {
  const [now, set] = useState(value);
  Object.assign(stage, { value: now });
  return <SchemaForm {...props} value={now} onChange={set} />;
}

const stage = {
  value: undefined as unknown,
  /** How many elements and parts were described so far: what rendering costs, whether the page changes or not. */
  described: 0,
  /** What parts have called back with. */
  said: [] as unknown[],
  /** Shows a part; its props replace those that it had. */
  show(part: string, props: Record<string, unknown>): void {
    const Part = parts[part]!;
    render(<Part {...props} />, document.querySelector("#stage")!);
  },
  /** Takes it away, so that the next one begins anew. */
  clear(): void {
    render(null, document.querySelector("#stage")!);
    stage.said.length = 0;
  },
};

const before = options.vnode;
options.vnode = (vnode) => {
  stage.described++;
  before?.(vnode);
};

Object.assign(window, { stage });
