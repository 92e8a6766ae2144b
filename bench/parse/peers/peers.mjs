// Parses a file of JSON with another parser's own incremental API, in chunks of a number of characters, and prints how long
// that took as one line of JSON. Usage: node peers.mjs PEER FILE [CHARACTERS [PASSES]]
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {parse} from 'jsonriver';

const {JSONParser} = createRequire(import.meta.url)('@bearbobo/ling/lib/cjs/parser/index.js');

const peers = {
	// jsonriver takes an async iterable of strings and yields the growing value once a chunk.
	async jsonriver(chunks) {
		async function* stream() {
			yield* chunks;
		}
		let events = 0;
		let last;
		for await (last of parse(stream())) events++;
		return {events, value: last};
	},
	// Ling's parser is told each chunk and emits deltas, one for each character of a string.
	ling(chunks) {
		const parser = new JSONParser({parentPath: null, autoFix: false});
		let events = 0;
		let value;
		parser.on('data', () => events++);
		parser.on('finish', v => (value = v));
		for (const chunk of chunks) parser.trace(chunk);
		return {events, value};
	},
};

const [peer, file, characters = '4', passes = '1'] = process.argv.slice(2);
if (!Object.hasOwn(peers, peer) || !file) {
	console.error(`usage: node peers.mjs ${Object.keys(peers).join('|')} FILE [CHARACTERS [PASSES]]`);
	process.exit(2);
}
const text = readFileSync(file, 'utf8');
const chunks = text.match(new RegExp(`.{1,${Number(characters)}}`, 'gsu'));
const bytes = Buffer.byteLength(text);

// The first pass is for the compiler to warm up, and shows that the peer reads the document right.
const {value} = await peers[peer](chunks);
if (JSON.stringify(value) !== JSON.stringify(JSON.parse(text))) {
	console.error(`${peer} read another document than JSON.parse`);
	process.exit(1);
}
for (let pass = 0; pass < Number(passes); pass++) {
	const start = process.hrtime.bigint();
	const {events} = await peers[peer](chunks);
	const seconds = Number(process.hrtime.bigint() - start) / 1e9;
	console.log(JSON.stringify({peer, bytes, chunks: chunks.length, events, seconds, 'MB/s': bytes / seconds / 1e6}));
}
