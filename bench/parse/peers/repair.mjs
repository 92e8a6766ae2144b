// Repairs the texts of a JSON array on stdin, [{"text": …}, …], with another parser, and prints the results as an array of JSON texts, ""
// for a text that it refuses. Usage: node repair.mjs jsonrepair|ling
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {jsonrepair} from 'jsonrepair';

const {JSONParser} = createRequire(import.meta.url)('@bearbobo/ling/lib/cjs/parser/index.js');

const peers = {
	jsonrepair,
	ling(text) {
		const parser = new JSONParser({parentPath: null, autoFix: true});
		let value;
		parser.on('finish', v => (value = v));
		parser.trace(text);
		parser.finish();
		return JSON.stringify(value) ?? '';
	},
};

const repair = peers[process.argv[2]];
const log = console.log;
for (const name of ['log', 'info', 'warn', 'error']) console[name] = () => {};
const results = JSON.parse(readFileSync(0, 'utf8')).map(({text}) => {
	try {
		return repair(text);
	} catch {
		return '';
	}
});
log(JSON.stringify(results));
