// useRun of React and of Vue, rendered without a browser, against the real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement as h, memo, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { act, create } from "react-test-renderer";
import { createRenderer, createSSRApp, defineComponent, h as vh, nextTick, ref } from "vue";
import { renderToString as renderVue } from "vue/server-renderer";
import { useRun as useReactRun } from "@lingserve/client/react";
import { useRun as useVueRun } from "@lingserve/client/vue";
import { lingserve } from "./server.js";

const ask = (question) => ({ workflow: "encyclopedia", input: { question } });

test("React: the document grows, parts that stay are not rendered again, another request is another run", async (t) => {
  const server = await lingserve(t, { pace: 300 });
  let starts = 0;
  const counted = (url, init) => (starts++, fetch(url, init));
  let state;
  let renders = 0;
  const sections = new Map();
  const Section = memo(({ section, at }) => (sections.set(at, (sections.get(at) ?? 0) + 1), h("p", null, section.title)));
  const Page = ({ request }) => {
    state = useReactRun(server.runs, request, { fetch: counted });
    renders++;
    return h("div", null, state.document?.article?.sections?.map((section, at) => h(Section, { key: at, at, section })));
  };
  const page = (request) => h(StrictMode, null, h(Page, { request }));
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  let root;
  await act(async () => void (root = create(page(null))));
  assert.deepEqual([state.status, state.document, starts], ["idle", undefined, 0]);

  await act(async () => root.update(page(ask("Why is the sky blue?"))));
  globalThis.IS_REACT_ACT_ENVIRONMENT = false;
  await until(() => state.document?.article?.title);
  assert.equal(state.status, "running");
  const { run } = state;
  await until(() => state.status !== "running");
  assert.deepEqual([state.status, state.error, starts], ["completed", undefined, 1]);
  assert.deepEqual(state.document, await run);
  for (let i = 0; i < 3; i++) root.update(page(ask("Why is the sky blue?"))); // the same, in another object
  await until(() => root.toJSON().children.length === state.document.article.sections.length);
  assert.equal(starts, 1);
  assert.ok(renders > 10, `${renders} renders`);
  for (const [at, n] of sections) assert.ok(n < renders, `section ${at} was rendered ${n} times of ${renders}`);

  root.update(page(ask("Why is the sea salty?")));
  await until(() => state.run !== run && state.document?.article);
  const second = state.run;
  assert.equal(starts, 2);
  root.unmount();
  await assert.rejects(second, { code: "closed" });
});

test("React: strict mode's second mount is no second run", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  let starts = 0;
  let state;
  const counted = (url, init) => (starts++, fetch(url, init));
  const Page = () => ((state = useReactRun(server.runs, ask("Why?"), { fetch: counted })), null);
  create(h(StrictMode, null, h(Page)));
  await until(() => state?.status === "completed");
  assert.equal(starts, 1);
});

test("React: what is wrong with a request is in the state", async (t) => {
  const server = await lingserve(t);
  let state;
  const Page = () => ((state = useReactRun(server.runs, { workflow: "none" })), null);
  create(h(Page));
  await until(() => state?.error);
  assert.deepEqual([state.status, state.error.code], ["lost", "not_found"]);
});

test("Vue: the document grows, another request is another run, and a component that goes stops following", async (t) => {
  const server = await lingserve(t, { pace: 300 });
  let starts = 0;
  const counted = (url, init) => (starts++, fetch(url, init));
  const question = ref("");
  let state;
  let renders = 0;
  const Page = defineComponent({
    setup() {
      state = useVueRun(server.runs, () => question.value && ask(question.value), { fetch: counted });
      return () => (renders++, vh("p", state.document.value?.article?.title ?? ""));
    },
  });
  const node = () => ({ text: "" });
  const { createApp } = createRenderer({
    createElement: node, createText: node, createComment: node, setText() {}, patchProp() {}, insert() {}, remove() {},
    setElementText: (n, text) => (n.text = text), parentNode: () => null, nextSibling: () => null,
  });
  const app = createApp(Page);
  app.mount({});
  assert.deepEqual([state.status.value, starts], ["idle", 0]);
  question.value = "Why is the sky blue?";
  await until(() => state.document.value?.article?.title);
  assert.equal(state.status.value, "running");
  await until(() => state.status.value !== "running");
  assert.deepEqual([state.status.value, state.error.value, starts], ["completed", undefined, 1]);
  assert.deepEqual(state.document.value, await state.run.value);
  assert.ok(renders > 3, `${renders} renders`);
  const first = state.run.value;
  question.value = "Why is the sea salty?";
  await until(() => state.run.value !== first && state.document.value?.article);
  const second = state.run.value;
  await nextTick();
  app.unmount();
  await assert.rejects(second, { code: "closed" });
  assert.equal(starts, 2);
});

test("React: cancel is the same function in every render, and cancels the run at hand", async (t) => {
  const server = await lingserve(t, { pace: 100 });
  const states = [];
  const Page = () => (states.push(useReactRun(server.runs, ask("Why?"))), null);
  const root = create(h(Page));
  t.after(() => root.unmount());
  await until(() => states.at(-1)?.document?.article?.title);
  assert.ok(states.length > 2, `${states.length} renders`);
  await states[0].cancel(); // of the first render, where there was no run yet
  await until(() => states.at(-1).status === "canceled");
  assert.equal(new Set(states.map((s) => s.cancel)).size, 1);
});

test("a page that is rendered to text, on a server, runs nothing", async (t) => {
  let asked = 0;
  const counted = async () => (asked++, new Response(null, { status: 204 }));
  const React = () => {
    const { status, document, error, run } = useReactRun("http://localhost/v1/runs", ask("Why?"), { fetch: counted });
    return h("p", null, [status, document, error, run].join());
  };
  assert.equal(renderToString(h(StrictMode, null, h(React))), "<p>idle,,,</p>");
  const Vue = defineComponent({
    async setup() {
      const before = useVueRun("http://localhost/v1/runs", ask("Why?"), { fetch: counted });
      await null;
      const after = useVueRun("http://localhost/v1/runs", ask("Why?"), { fetch: counted }); // of no component any more
      return () => vh("p", [before, after].map((r) => [r.status.value, r.document.value, r.error.value, r.run.value].join()).join(" "));
    },
  });
  assert.equal(await renderVue(createSSRApp(Vue)), "<p>idle,,, idle,,,</p>");
  await new Promise((resolve) => setTimeout(resolve, 50)); // nor later
  assert.equal(asked, 0);
});

async function until(done) {
  for (let i = 0; !done(); i++) {
    if (i > 2000) throw new Error("it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
