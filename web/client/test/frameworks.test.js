// useRun of React and of Vue, rendered without a browser, against the real server.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createElement as h, memo, StrictMode } from "react";
import { renderToString } from "react-dom/server";
import { act, create } from "react-test-renderer";
import { createRenderer, createSSRApp, defineComponent, effectScope, h as vh, nextTick, ref } from "vue";
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

test("DP-10, React: restart is another run of the same request, and a run's id follows a run that was started before", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const keys = [];
  const counted = (url, init) => (init.method === "POST" && keys.push(init.headers.get("Idempotency-Key")), fetch(url, init));
  let state;
  const Page = ({ request }) => ((state = useReactRun(server.runs, request, { fetch: counted, key: "mine" })), null);
  const page = (request) => h(StrictMode, null, h(Page, { request }));
  const root = create(page(null));
  await until(() => state?.status === "idle");
  state.restart(); // there is nothing to start again
  root.update(page(ask("Why?")));
  await until(() => state.status === "completed");
  const first = state;
  assert.equal(keys.length, 1);

  state.restart();
  await until(() => state.run !== first.run && state.status === "completed");
  assert.notEqual(state.run.id, first.run.id);
  assert.equal(state.restart, first.restart);
  assert.deepEqual([keys.length, keys[0]], [2, "mine"]);
  assert.notEqual(keys[1], "mine"); // under which the server would give the first run again
  assert.ok(state.document.article.title);

  root.update(page({ run: first.run.id }));
  await until(() => state.run?.id === first.run.id && state.status === "completed");
  assert.deepEqual(state.document, first.document);
  const followed = state.run;
  state.restart();
  await until(() => state.run !== followed && state.status === "completed");
  assert.deepEqual([state.run.id, keys.length], [first.run.id, 2]);

  root.unmount();
  await new Promise((resolve) => setTimeout(resolve, 20));
  const last = state.run;
  state.restart(); // of a component that is gone
  assert.deepEqual([state.run, keys.length], [last, 2]);
});

test("DP-10, React: a restart while the run goes on shows the new run from its beginning", async (t) => {
  const server = await lingserve(t, { pace: 300 });
  let state;
  const Page = () => ((state = useReactRun(server.runs, ask("Why?"))), null);
  const root = create(h(Page));
  await until(() => state?.document?.article?.sections);
  const { run } = state;
  state.restart();
  assert.deepEqual([run.status, run.error.code], ["lost", "closed"]);
  await until(() => state.run !== run);
  assert.equal(state.error, undefined);
  assert.equal(state.document?.article?.sections, undefined);
  await until(() => state.document?.article?.title);
  const second = state.run;
  root.unmount();
  await assert.rejects(second, { code: "closed" }); // it is the one that is left
});

test("DP-10, Vue: restart is another run of the same request, and a run's id follows a run that was started before", async (t) => {
  const server = await lingserve(t, { pace: 4000 });
  const keys = [];
  const counted = (url, init) => (init.method === "POST" && keys.push(init.headers.get("Idempotency-Key")), fetch(url, init));
  globalThis.window = globalThis; // so that a scope without a component runs
  t.after(() => delete globalThis.window);
  const request = ref(null);
  const scope = effectScope();
  const state = scope.run(() => useVueRun(server.runs, request, { fetch: counted, key: "mine" }));
  state.restart();
  assert.equal(keys.length, 0);
  request.value = ask("Why?");
  await until(() => state.status.value === "completed");
  const first = state.run.value;
  const document = state.document.value;
  state.restart();
  await until(() => state.run.value !== first && state.status.value === "completed");
  assert.notEqual(state.run.value.id, first.id);
  assert.deepEqual([keys.length, keys[0]], [2, "mine"]);
  assert.notEqual(keys[1], "mine");
  request.value = { run: first.id };
  await until(() => state.run.value.id === first.id && state.status.value === "completed");
  assert.deepEqual([state.document.value, keys.length], [document, 2]);
  scope.stop();
  state.restart();
  assert.equal(keys.length, 2);
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
