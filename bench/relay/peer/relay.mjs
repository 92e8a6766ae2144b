// A server that relays a model with @bearbobo/ling, written as its README shows: one bot that answers in JSON, deltas out as
// SSE. Usage: node relay.mjs NODE_MODULES MODEL_ADDRESS; prints its own address.
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {Readable} from 'node:stream';
import {pipeline} from 'node:stream/promises';

const [modules, model] = process.argv.slice(2);
const {Ling} = createRequire(join(modules, 'here.js'))('@bearbobo/ling');

const server = createServer(async (req, res) => {
	try {
		let body = '';
		for await (const chunk of req) body += chunk;
		const {question} = JSON.parse(body);
		const ling = new Ling({model_name: 'bench-1', api_key: 'bench', endpoint: `http://${model}/v1/chat/completions`, sse: true});
		ling.on('error', error => console.error(error));
		// With SSE it leaves a stream open when it has finished; whoever uses it has to end it.
		ling.on('finished', () => ling.tube.controller.close());
		const bot = ling.createBot('article');
		bot.addPrompt('Answer in JSON.');
		bot.chat(question);
		ling.close();
		res.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', Connection: 'keep-alive'});
		await pipeline(Readable.fromWeb(ling.stream), res);
	} catch (error) {
		console.error(error);
		res.destroy();
	}
});
server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
