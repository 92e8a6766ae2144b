// A Bot API server that others have written. Each line that comes in is what somebody writes to the bot; each line that goes out is
// what the bot has answered.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const TelegramServer = createRequire(import.meta.url)('telegram-test-api');
const [port, token] = process.argv.slice(2);
const server = new TelegramServer({ port: Number(port), host: '127.0.0.1', storage: 'RAM', storeTimeout: 60 });
await server.start();
console.log(JSON.stringify({ ready: true }));
const client = server.getClient(token, { timeout: 10_000, chatId: 7, userId: 7, firstName: 'Ann' });
for await (const line of createInterface({ input: process.stdin })) {
  const { text, command } = JSON.parse(line);
  if (command) await client.sendCommand(client.makeCommand(text));
  else await client.sendMessage(client.makeMessage(text));
  const { result } = await client.getUpdates();
  console.log(JSON.stringify({ said: result.map((u) => u.message) }));
}
await server.stop();
