// What the relays on Node share: a server whose requests are {"question": …}. It prints its address.
import {createServer} from 'node:http';

export function serve(answer) {
	const server = createServer(async (req, res) => {
		try {
			let body = '';
			for await (const chunk of req) body += chunk;
			await answer(JSON.parse(body).question, res);
		} catch (error) {
			console.error(error);
			res.destroy();
		}
	});
	server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
}

// sse writes an iterable as an event stream, and waits for a reader that is slower.
export async function sse(res, events) {
	res.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache'});
	for await (const event of events) {
		if (!res.write(`data: ${JSON.stringify(event)}\n\n`)) await new Promise(resolve => res.once('drain', resolve));
	}
	res.end('data: [DONE]\n\n');
}
