// Bolt takes presses, and the Web API client does what channel/slack does. Jobs come in as lines of JSON, what was understood goes out so.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import path from 'node:path';
import ts from 'typescript';

const { App, LogLevel } = createRequire(import.meta.url)('@slack/bolt');
const [api, token, signingSecret] = process.argv.slice(2);
const app = new App({ token, signingSecret, logLevel: LogLevel.ERROR, clientOptions: { slackApiUrl: api + '/', retryConfig: { retries: 0 } } });

let pressed;
app.action(/^lingserve\./, async ({ ack, action, body, client, respond }) => {
  await ack();
  pressed = {
    type: action.type, id: action.action_id, block: action.block_id, value: action.value, user: body.user.id, team: body.team.id, channel: body.channel.id,
    message: body.message.ts, thread: body.container.thread_ts ?? '', blocks: body.message.blocks.length, respond: typeof respond,
  };
});

// types holds values to the types of the Web API client: what does not fit goes back.
function types(values) {
  const names = [...new Set(values.map((v) => v.type))];
  const source = [`import type { ${names.join(', ')} } from "@slack/web-api";`,
    ...values.map((v, n) => `export const v${n}: ${v.type} = ${JSON.stringify(v.value)};`)].join('\n');
  const file = path.join(import.meta.dirname, 'values.ts'); // in memory only
  const options = { strict: true, noEmit: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [] };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(file, source, ts.ScriptTarget.ES2022) : getSourceFile.call(host, name, ...rest);
  host.fileExists = (name) => name === file || fileExists.call(host, name);
  host.readFile = (name) => (name === file ? source : readFile.call(host, name));
  return ts.getPreEmitDiagnostics(ts.createProgram([file], options, host)).map((d) => {
    const line = d.file?.fileName === file ? d.file.getLineAndCharacterOfPosition(d.start).line : 0;
    return `${values[line - 1]?.type ?? d.file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(d.messageText, ' ')}`;
  });
}

const jobs = {
  start: async () => (await app.start({ port: 0, host: '127.0.0.1' })).address().port,
  pressed: async () => pressed,
  call: async ({ method, params }) => {
    try {
      const { ok, ts: stamp, message } = await app.client.apiCall(method, params);
      return { ok, ts: typeof stamp, blocks: message?.blocks?.length ?? 0 };
    } catch (e) {
      return { error: e.data?.error ?? e.message };
    }
  },
  types: async ({ values }) => types(values),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { job, ...rest } = JSON.parse(line);
  console.log(JSON.stringify({ got: (await jobs[job](rest)) ?? null }));
}
await app.stop();
