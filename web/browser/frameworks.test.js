// useRun in pages of React 19, React 18 and Vue: what is rendered when, and how many runs there are.
import assert from "node:assert/strict";
import { lingserve } from "../client/test/server.js";
import { launch, open, test } from "./browser.js";
import { site } from "./bundle.js";
import { model } from "./model.js";

const chrome = await launch();
const workflows = { story: "name: story\nbots:\n  story: {}\n" };

const react = `
  import { createElement as h, memo, StrictMode, useState } from "react";
  import { createRoot } from "react-dom/client";
  import { useRun } from "@lingserve/client/react";
  window.rendered = [];
  const Section = memo(({ section, at }) => {
    rendered[at] = (rendered[at] ?? 0) + 1;
    return h("section", null, section.title, ": ", section.body);
  });
  const Story = ({ question }) => {
    const { document, status, error } = useRun("/v1/runs", { workflow: "story", input: { question }, on_disconnect: "cancel" });
    window.state = { status, error: error?.code };
    return h("main", null, document?.sections?.map((section, at) => h(Section, { key: at, at, section })));
  };
  const App = () => {
    const [question, ask] = useState("first");
    window.ask = ask;
    return question && h(Story, { question });
  };
  createRoot(document.querySelector("#app")).render(h(StrictMode, null, h(App)));`;

const vue = {
  "./Section.vue": `<script setup>
    const props = defineProps(["section", "at"]);
    const count = () => void (rendered[props.at] = (rendered[props.at] ?? 0) + 1);
    </script>
    <template><section>{{ count() }}{{ section.title }}: {{ section.body }}</section></template>`,
  "./Story.vue": `<script setup>
    import { watchEffect } from "vue";
    import { useRun } from "@lingserve/client/vue";
    import Section from "./Section.vue";
    const props = defineProps(["question"]);
    const { document, status, error } = useRun("/v1/runs", () => ({ workflow: "story", input: { question: props.question }, on_disconnect: "cancel" }));
    watchEffect(() => (window.state = { status: status.value, error: error.value?.code }));
    </script>
    <template><main><Section v-for="(section, at) in document?.sections" :key="at" :at="at" :section="section" /></main></template>`,
};
const vueMain = `
  import { createApp, h, ref } from "vue";
  import Story from "./Story.vue";
  window.rendered = [];
  const question = ref("first");
  window.ask = (q) => (question.value = q);
  createApp({ render: () => question.value && h(Story, { question: question.value }) }).mount("#app");`;

for (const [name, source, options] of [
  ["React 19, strict", react, {}],
  ["React 18, strict", react, { react: 18 }],
  ["Vue", vueMain, { modules: vue }],
]) {
  test(`${name}: one run, of which only what changes is rendered; another question is another run, and who leaves stops it`, async (t) => {
    const script = await model(t);
    const server = await lingserve(t, { env: script.env, workflows });
    const page = await open(t, chrome, server.url, { files: await site(source, options) });
    await page.goto("/test");
    const shown = (text) => page.until((text) => document.querySelector("main")?.textContent === text, text);

    const first = await script.asked();
    await first.say('{"sections": [{"title": "One", "body": "Told."}, {"title": "Two", "body": "');
    await shown("One: Told.Two: ");
    const before = await page.evaluate(() => [...rendered]);
    let body = "";
    for (const word of ["Word", " by", " word", " it", " grows"]) {
      body += word;
      await first.say(word);
      await shown(`One: Told.Two: ${body}`);
    }
    const after = await page.evaluate(() => [...rendered]);
    assert.equal(after[0], before[0], "a section that has not changed was rendered");
    assert.ok(after[1] >= before[1] + 5, `the one that has was rendered ${after[1] - before[1]} times`);
    assert.equal(page.starts().length, 1, "runs");

    await page.evaluate(() => ask("second"));
    await first.closed; // the run of the question before has ended with its connection
    const second = await script.asked();
    assert.match(second.question, /second/);
    await second.end('{"sections": [{"title": "New", "body": "story"}]}');
    await shown("New: story");
    await page.until(() => state.status === "completed");
    assert.equal(page.starts().length, 2, "runs");

    await page.evaluate(() => ask("third"));
    const third = await script.asked();
    await third.say('{"sections": [');
    await page.until(() => state.status === "running");
    await page.evaluate(() => ask(""));
    await third.closed;
    assert.equal(await page.evaluate(() => document.querySelector("main")), null);
    assert.equal(page.starts().length, 3, "runs");
  });
}

const hydrated = {
  React: `
    import { createElement as h, StrictMode } from "react";
    import { hydrateRoot } from "react-dom/client";
    import { renderToString } from "react-dom/server";
    import { useRun } from "@lingserve/client/react";
    const Story = () => {
      const { document, status } = useRun("/v1/runs", { workflow: "story", input: {} });
      return h("main", null, status + ": " + (document?.text ?? ""));
    };
    const app = h(StrictMode, null, h(Story));
    const root = document.querySelector("#app");
    window.rendered = root.innerHTML = renderToString(app);
    window.hydrate = () => void hydrateRoot(root, app);`,
  Vue: `
    import { createSSRApp, h } from "vue";
    import { renderToString } from "vue/server-renderer";
    import { useRun } from "@lingserve/client/vue";
    const Story = {
      setup() {
        const { document, status } = useRun("/v1/runs", { workflow: "story", input: {} });
        return () => h("main", status.value + ": " + (document.value?.text ?? ""));
      },
    };
    const root = document.querySelector("#app");
    window.rendered = root.innerHTML = await renderToString(createSSRApp(Story));
    window.hydrate = () => void createSSRApp(Story).mount(root);`,
};
for (const [name, source] of Object.entries(hydrated)) {
  test(`${name}: a page that was rendered as text is taken over as it is, and runs from then on`, async (t) => {
    const script = await model(t);
    const server = await lingserve(t, { env: script.env, workflows });
    const page = await open(t, chrome, server.url, { files: await site(source) }); // a mismatch is said on the console
    await page.goto("/test");
    assert.equal(await page.until(() => window.rendered), "<main>idle: </main>");
    assert.equal(page.starts().length, 0);
    await page.evaluate(() => hydrate());
    await (await script.asked()).end('{"text": "Told."}');
    await page.until(() => document.querySelector("main").textContent === "completed: Told.");
    assert.equal(page.starts().length, 1);
  });
}

test("React 19: a component that is hidden for a while goes on with its run; one that has ended stays as it is", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env, workflows });
  const source = `
    import { Activity, createElement as h, StrictMode, useState } from "react";
    import { createRoot } from "react-dom/client";
    import { useRun } from "@lingserve/client/react";
    const request = { workflow: "story", input: {} };
    const Story = () => {
      const { document, status } = useRun("/v1/runs", request);
      return h("main", null, status, ": ", document?.text);
    };
    const App = () => {
      const [mode, show] = useState("visible");
      window.show = show;
      return h(Activity, { mode }, h(Story));
    };
    createRoot(document.querySelector("#app")).render(h(StrictMode, null, h(App)));`;
  const page = await open(t, chrome, server.url, { files: await site(source) });
  await page.goto("/test");
  const shown = (text) => page.until((text) => document.querySelector("main")?.textContent === text && getComputedStyle(document.querySelector("main")).display !== "none", text);
  const asked = await script.asked();
  await asked.say('{"text": "Before and ');
  await shown("running: Before and ");
  const left = page.waitForEvent("requestfailed"); // it is not followed while nobody looks
  await page.evaluate(() => show("hidden"));
  await left;
  await asked.say("meanwhile and ");
  await page.evaluate(() => show("visible"));
  await shown("running: Before and meanwhile and ");
  await asked.end('after."}');
  await shown("completed: Before and meanwhile and after.");
  await page.evaluate(() => show("hidden"));
  await page.until(() => getComputedStyle(document.querySelector("main")).display === "none");
  await page.evaluate(() => show("visible"));
  await shown("completed: Before and meanwhile and after.");
  assert.equal(page.starts().length, 1, "runs");
});

test("what is wrong with a request is in the state", async (t) => {
  const script = await model(t);
  const server = await lingserve(t, { env: script.env });
  const page = await open(t, chrome, server.url, { files: await site(react), allow: [/Failed to load resource/] });
  await page.goto("/test");
  await page.until(() => state.error === "not_found"); // unknown workflow of this name
  assert.equal(await page.evaluate(() => state.status), "lost");
});
